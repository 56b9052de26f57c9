//! The layer that was chosen for a request.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;

use crate::Rejection;
use crate::config::{LayerConfig, LiveConfig};
use crate::registry::layers::ListedLayer as _;
use crate::{KeyError, LayerError, RateLimitLayer, Reason, Registry};
use portcullis_core::Mistakes;
use portcullis_engine::Signals;
use portcullis_engine::{Event, EventKind};
use portcullis_log::file_log::LimitTexts;
use portcullis_response::internal::Cause;

/// The log of layers that are chosen among each other: their lines are throttled together, and an outage of the store is one for all of
/// them.
#[derive(Clone, Default)]
pub struct LayerLog(Arc<Signals>);

/// A layer to choose for requests.
#[derive(Clone)]
pub struct PreparedLayer(Arc<LiveConfig>);

/// A layer with its policies as they were at one instant.
#[derive(Clone)]
pub struct CurrentLayer(pub(crate) Arc<LayerConfig>);

/// The choice for one request.
#[must_use = "a selection limits nothing until it is returned to the service"]
pub struct Selection {
    pub(crate) target: Target,
    pub(crate) header: Option<Box<(HeaderName, HeaderValue)>>,
}

pub(crate) enum Target {
    None,
    Layer(CurrentLayer),
    Refused(Box<Refusal>),
}

pub(crate) struct Refusal {
    registry: Arc<Registry>,
    error: KeyError,
}

impl PreparedLayer {
    /// Prepares a layer, which logs with others.
    pub fn new(layer: &RateLimitLayer, log: &LayerLog) -> Self {
        let config = layer.config.with_signals(Arc::clone(&log.0));
        Self(LiveConfig::of(&Arc::new(config)))
    }

    /// Lists the layer in [`Registry::layers`], for as long as this, or a clone of it, exists. Other prepared layers are not listed,
    /// because there may be one for each combination of rules.
    pub fn list(&self) {
        self.0.list();
    }

    /// Logs what the rules of a file limit, up to a number of lines, or what differs from the rules that were logged before. Returns their texts.
    #[doc(hidden)]
    pub fn log_rules(generation: u64, rules: &[(String, Self)], before: Option<&LimitTexts>) -> LimitTexts {
        let text = |(name, rule): &(String, Self)| {
            let rule = rule.0.summary();
            (name.clone(), format!("{}, {}", rule.policies_text(), rule.route().unwrap_or_default()))
        };
        let texts = rules.iter().map(text).collect::<LimitTexts>();
        if let Some(before) = before {
            texts.log_changes(before, "a rule of the rate limiter");
            return texts;
        }
        for (_, rule) in rules.iter().take(MAX_RULE_LINES) {
            let rule = rule.0.summary();
            let (applies_to, policies) = (rule.route(), rule.policies_text());
            tracing::info!(generation, applies_to, policies, "a rule of the rate limiter limits requests");
        }
        if let more @ 1.. = rules.len().saturating_sub(MAX_RULE_LINES) {
            tracing::info!(
                generation,
                more,
                "more rules of the rate limiter limit requests: they are not logged"
            );
        }
        texts
    }

    /// Returns the layer with its policies as they are now.
    #[inline]
    pub fn current(&self) -> CurrentLayer {
        CurrentLayer(Arc::clone(&*self.0.current()))
    }
}

impl Selection {
    /// No layer limits the request.
    pub const fn none() -> Self {
        Self { target: Target::None, header: None }
    }

    /// This layer limits the request.
    pub const fn layer(layer: CurrentLayer) -> Self {
        Self { target: Target::Layer(layer), header: None }
    }

    /// The layer that should limit the request cannot be made: the request is rejected with 500, or `INTERNAL` in gRPC, and
    /// [`EventKind::Misconfigured`] is emitted.
    pub fn refused(registry: &Arc<Registry>, error: &Mistakes<LayerError>) -> Self {
        let error = KeyError::server(format!("the rules of a request cannot be combined: {error}"));
        let refusal = Refusal { registry: Arc::clone(registry), error };
        Self { target: Target::Refused(Box::new(refusal)), header: None }
    }

    /// Adds a header to the response, in place of one of the same name.
    pub fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some(Box::new((name, value))), ..self }
    }
}

impl Refusal {
    pub(crate) fn response(&self, parts: &Parts) -> Response<Full<Bytes>> {
        let Self { registry, error } = self;
        let rejected = EventKind::Rejected { reason: Reason::Misconfigured, decisions: &[] };
        for kind in [EventKind::Misconfigured { error }, rejected] {
            let event = Event::new(&[], kind);
            registry.engine().emit(registry.policy_sets().log(), &event);
        }
        let rejection = Rejection::new(parts, Cause::NoKey(error));
        registry.default_responses().reject(&rejection)
    }
}

/// Lines about the rules of one generation.
const MAX_RULE_LINES: usize = 100;

impl fmt::Debug for LayerLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerLog").finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PreparedLayer").field(&self.0).finish()
    }
}

impl fmt::Debug for CurrentLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentLayer").field(&self.0).finish()
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target: &dyn fmt::Debug = match &self.target {
            Target::None => &"none",
            Target::Layer(layer) => layer,
            Target::Refused(refusal) => &refusal.error,
        };
        f.debug_struct("Selection").field("target", target).finish_non_exhaustive()
    }
}
