//! The layer for HTTP clients, and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{Mistakes, Policy, PolicySettings, or_panic};
use portcullis_engine::LayerError;
use portcullis_engine::policies::{Member, Membership};
use portcullis_identity::KeyExtractor;
use portcullis_tower::Registry;
use tower_layer::Layer;

use crate::authority::Authority;
use crate::hints::{HintSettings, RemainingHeaders};
use crate::service::Outgoing;
use crate::shared::{Config, Shared};

/// A layer around an HTTP client that keeps to what a server allows. All services that it makes share which keys are closed in this
/// process.
///
/// It paces requests by a policy, which all clones, tasks and processes with the same store share. A request waits for
/// its slot or window as the policy [allows](portcullis_core::Policy::wait_at_most), or fails with [`OutgoingError::Limited`](crate::OutgoingError::Limited) and is not
/// sent. What the server answers is obeyed: a refusal closes the key until the time that it states, for all processes, by a
/// block in the store.
///
/// | answer | the key is closed for |
/// |---|---|
/// | 429 | the longest time in `Retry-After`, in seconds or as a date; else that of a policy in `RateLimit` without remaining units, or in the [headers](OutgoingLayer::remaining_headers) that are set; else [a second](OutgoingLayer::closed_without_hint) |
/// | gRPC `RESOURCE_EXHAUSTED` in the headers | the same, with `grpc-retry-pushback-ms` and, by the feature `tonic`, `RetryInfo` in the details |
/// | 503 or gRPC `UNAVAILABLE`, with a time | this time |
/// | any other in which nothing remains | its reset, [if that is set](OutgoingLayer::close_at_zero) |
///
/// A time is never longer than [a minute](OutgoingLayer::closed_at_most). Dates are compared with the `Date` of the same answer. A value
/// that is invalid is ignored, with [an event](portcullis_tower::EventKind::OutgoingHintIgnored). A gRPC status in trailers, after messages, is
/// not read.
///
/// The layer never repeats a request, never reads or copies a body, and needs no clone of a request.
///
/// ```
/// use std::time::Duration;
///
/// use http::{Request, Response};
/// use portcullis::outgoing::OutgoingError;
/// use portcullis::{Limiter, Policy, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Ten calls per second to each host; a call too many waits for up to two seconds.
/// let policy = Policy::gcra("partners", Quota::per_second(10)).wait_at_most(Duration::from_secs(2));
/// let client = Limiter::memory().outgoing(policy).layer(service_fn(async |_: Request<String>| {
///     // An HTTP client. This server refuses everything.
///     Response::builder().status(429).header("retry-after", "30").body(())
/// }));
/// let request = || Request::get("https://api.example.com/v1").body(String::new());
/// assert_eq!(client.clone().oneshot(request()?).await?.status(), 429);
///
/// let Err(OutgoingError::Limited(paced)) = client.oneshot(request()?).await else { unreachable!() };
/// assert!(paced.is_closed() && paced.retry_after() > Some(Duration::from_secs(20)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OutgoingLayer {
    shared: Arc<Shared>,
}

impl OutgoingLayer {
    /// Makes a layer that paces requests by `policy`, and registers the policy. The key is the [host](Authority).
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub fn new(registry: Arc<Registry>, policy: Policy) -> Self {
        or_panic(Self::try_new(registry, policy))
    }

    /// Like [`new`](Self::new), for policies that are not literals.
    ///
    /// The policy [allows overrides](Policy::allow_overrides), because its keys are blocked in the store.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the policy: it has a [lease](Policy::lease); the registry has a different policy of the same name,
    /// whatever the lease; its store refuses the policy.
    pub fn try_new(registry: Arc<Registry>, policy: Policy) -> Result<Self, Mistakes<LayerError>> {
        let (policy, membership) = join(&registry, policy)?;
        let (key, hints) = (Arc::new(Authority), HintSettings::default());
        let config = Config { registry, policy, _membership: membership, key, at_most: None, hints };
        Ok(Self { shared: Arc::new(Shared::new(config)) })
    }

    /// Sets the key that is charged and closed: the account by which a server counts, or anything else in the head of a request. The
    /// [host](Authority) by default. A request without a key is an error, and one that the extractor exempts is sent at once.
    #[must_use]
    pub fn by(self, key: impl KeyExtractor) -> Self {
        self.with(|config| config.key = Arc::new(key))
    }

    /// Sets the longest wait of a request, for its slot or window and for its key to open together. A wait of zero is none.
    ///
    /// It shortens the wait that the policy [allows](Policy::wait_at_most), and does not lengthen it: without one, a request that
    /// does not fit fails at once, and may still wait for a closed key. By default it is that of the policy, and none if it has none.
    #[must_use]
    pub fn at_most(self, wait: Duration) -> Self {
        self.with(|config| config.at_most = Some(wait))
    }

    /// Sets the longest time for which an answer closes its key, one minute by default: an answer that states more closes it for this
    /// time, and one that states no time for no longer. It is cut to 2^51 microseconds.
    #[must_use]
    pub fn closed_at_most(self, length: Duration) -> Self {
        self.with(|config| config.hints.set_cap(length))
    }

    /// Sets for how long a refusal closes its key that states no time, an invalid one, or one that has passed: one second by default.
    /// With zero the key stays open.
    #[must_use]
    pub fn closed_without_hint(self, length: Duration) -> Self {
        self.with(|config| config.hints.without_hint = length)
    }

    /// Makes answers close their key as well that are no refusals and state that nothing remains, until the reset that they state.
    ///
    /// By default they do not. Many servers, this crate among them, count evenly spaced requests so that nothing remains after each of
    /// them, and round the reset up to whole seconds: to obey that slows a client down that a matching policy paces exactly.
    #[must_use]
    pub fn close_at_zero(self) -> Self {
        self.with(|config| config.hints.closes_at_zero = true)
    }

    /// Adds headers from which the remaining units and their reset are read, and in which format. None by default.
    ///
    /// Add a pair for each budget that a server states: of those without remaining units the longest reset counts. They are read in a
    /// refusal that states no other time and, with [`close_at_zero`](Self::close_at_zero), in all answers. The structured fields
    /// `RateLimit` and `RateLimit-Policy` have one format, and are read without this.
    #[must_use]
    pub fn remaining_headers(self, headers: RemainingHeaders) -> Self {
        self.with(|config| config.hints.remaining.push(headers))
    }

    fn with(self, set: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.shared.config.clone();
        set(&mut config);
        Self { shared: Arc::new(Shared::new(config)) }
    }
}

/// Registers a policy with overrides. One with a lease is compared with those of the registry as if it had none.
fn join(registry: &Registry, policy: Policy) -> Result<(Policy, Arc<Membership>), Mistakes<LayerError>> {
    let mut mistakes = Vec::new();
    let policy = if policy.max_lease().is_none() {
        policy.allow_overrides()
    } else {
        mistakes.push(LayerError::LeasedOverrides { policy: policy.name().clone() });
        let settings = PolicySettings { max_lease: None, allow_overrides: true, ..policy.settings() };
        let policy = Policy::try_new(policy.name().as_str(), Ok(*policy.strategy()), settings);
        policy.expect("a policy may be without a lease")
    };
    let member = Member { policy: policy.name().clone(), has_chosen_key: false };
    let joined = registry.engine().join(Box::new([member]), Some(&policy));
    let joined = joined.map_err(|error| mistakes.push(error)).ok();
    let membership = Mistakes::none_or(mistakes, joined)?.expect("a policy without mistakes has joined");
    Ok((policy, membership))
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = Outgoing<S>;

    fn layer(&self, inner: S) -> Outgoing<S> {
        Outgoing::new(inner, Arc::clone(&self.shared))
    }
}

impl fmt::Debug for OutgoingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { policy, at_most, hints, .. } = &self.shared.config;
        f.debug_struct("OutgoingLayer")
            .field("policy", policy.name())
            .field("at_most", at_most)
            .field("hints", hints)
            .finish_non_exhaustive()
    }
}
