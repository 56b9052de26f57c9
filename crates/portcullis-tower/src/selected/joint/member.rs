//! A request of a call, and what it asks of its limits.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{Empty, Full};
use portcullis_core::store::Outcome;
use portcullis_core::{Key, PolicyName};
use portcullis_engine::{Ask, EventKeys, Patience, Uncounted};

use super::JointRequest;
use crate::KeyError;
use crate::admission::plan::{self, Plan};
use crate::admission::reject::PlannedRejection;
use crate::admission::{RejectedRequest, later};
use crate::config::LayerConfig;
use crate::selected::{CurrentLayer, Selection, Target};

/// A request that its limits decide about.
pub(super) struct Member {
    /// Its place in the call.
    pub(super) number: usize,
    pub(super) config: Arc<LayerConfig>,
    pub(super) parts: Parts,
    pub(super) plan: Plan,
    pub(super) units: u64,
    /// What it has asked before its look-ups.
    pub(super) earlier: Ask,
    header: Header,
}

/// A request that is rejected whatever its limits say.
pub(super) struct Refused {
    /// The response if no layer can be made, or how the layer rejects it.
    by: Result<Response<Full<Bytes>>, Planned>,
    /// Why its key cannot be found.
    error: Option<KeyError>,
    header: Header,
}

/// A rejection that a layer has planned.
type Planned = (Arc<LayerConfig>, Plan, Parts);

/// A header that the selection adds to the response.
type Header = Option<Box<(HeaderName, HeaderValue)>>;

impl Refused {
    /// The error if the key cannot be found, the status in HTTP, and the response. Charges what counts rejections.
    pub(super) async fn respond(self: Box<Self>) -> (Option<KeyError>, StatusCode, Response<Full<Bytes>>) {
        let Self { by, error, header } = *self;
        let (status, response) = match by {
            Ok(response) => (StatusCode::INTERNAL_SERVER_ERROR, response),
            Err((config, plan, parts)) => {
                let decided = later::decide(config, Box::new((plan, None)), parts, Patience::default()).await;
                let of_rejected = |rejected: RejectedRequest| (rejected.status, rejected.response);
                decided.result.map_or_else(of_rejected, |_| (StatusCode::OK, Response::default()))
            }
        };
        (error, status, shown(response, header))
    }
}

impl Member {
    /// `None` if nothing limits the request.
    ///
    /// # Errors
    ///
    /// If the request is rejected whatever its limits say.
    pub(super) fn of(
        number: usize,
        request: JointRequest,
        is_trial: bool,
    ) -> Result<Option<Self>, Box<Refused>> {
        let JointRequest { selection: Selection { target, header }, parts, units } = request;
        let config = match target {
            Target::None => return Ok(None),
            Target::Refused(refusal) => {
                let by = Ok(refusal.response(&parts));
                return Err(Box::new(Refused { by, error: None, header }));
            }
            Target::Layer(CurrentLayer(config)) if config.registry.is_off() => {
                config.limits.emit_uncounted(Uncounted::Off, || EventKeys::None);
                return Ok(None);
            }
            Target::Layer(CurrentLayer(config)) if is_trial => Arc::new(config.in_trial()),
            Target::Layer(CurrentLayer(config)) => config,
        };
        let plan = plan::of(&config, &parts, &Empty::<Bytes>::new());
        let error = match &plan.rejection {
            None => {
                let earlier = Ask::default();
                return Ok(Some(Self { number, config, parts, plan, units, earlier, header }));
            }
            Some(PlannedRejection::Denied) => None,
            Some(PlannedRejection::Identity(error) | PlannedRejection::LookUp(error)) => Some(error.clone()),
        };
        Err(Box::new(Refused { by: Err((config, plan, parts)), error, header }))
    }

    /// Whether it reports usage.
    pub(super) fn is_report(&self) -> bool {
        let policies = self.config.policies();
        let mut asked = self.asks().flat_map(|ask| ask.enforced().iter().chain(ask.tried()));
        self.units > 1 || asked.any(|asked| policies[asked.index].is_report)
    }

    /// What it asks of its limits, before its look-ups and after them.
    pub(super) fn asks(&self) -> impl Iterator<Item = &Ask> {
        [&self.earlier, &self.plan.ask].into_iter()
    }

    /// Whether a policy of this name is tried out for this key.
    pub(super) fn has_tried(&self, policy: &PolicyName, key: Key) -> bool {
        let mut tried = self.earlier.tried().iter().chain(self.plan.ask.tried());
        tried.any(|asked| asked.is_about(&self.config.limits, policy, key))
    }

    /// What an outcome says about this request.
    pub(super) fn own(&self, outcome: &Outcome) -> Option<Outcome> {
        outcome.part(|check| {
            let mut asked = self.earlier.enforced().iter().chain(self.plan.ask.enforced());
            asked.any(|asked| asked.is_about(&self.config.limits, check.policy.name(), check.key))
        })
    }

    /// The response to this request, with the header of its selection.
    pub(super) fn response(&self, response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        shown(response, self.header.clone())
    }
}

fn shown(mut response: Response<Full<Bytes>>, header: Header) -> Response<Full<Bytes>> {
    if let Some(header) = header {
        response.headers_mut().insert(header.0, header.1);
    }
    response
}
