//! What is decided of a call, before it is written as a message.

mod headers;
mod response;

use std::time::Duration;

use portcullis::rules::envoy::Unit;
use portcullis::{Decision, Retry};

pub use headers::ResponseHeaders;
pub(super) use response::response;

/// The decision on a call.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) over: bool,
    /// One for each descriptor, in their order.
    pub(super) statuses: Vec<Status>,
    /// The headers and the body that native rules have made.
    pub(super) response: Option<http::Response<bytes::Bytes>>,
}

impl Verdict {
    /// Whether one of these descriptors shows figures.
    pub(super) fn shows(&self, slots: &[usize]) -> bool {
        slots.iter().any(|slot| self.statuses.get(*slot).is_some_and(|status| status.limit.is_some()))
    }
}

/// The decision on one descriptor.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) over: bool,
    /// Whether the limit never denies, and is not shown to clients.
    pub(super) is_shadow: bool,
    /// Whether a rule says that there is no limit.
    pub(super) is_unlimited: bool,
    /// The limit with its figures; `None` if nothing is counted or known.
    pub(super) limit: Option<LimitStatus>,
}

/// A limit with its figures.
#[derive(Clone, Debug)]
pub(super) struct LimitStatus {
    pub(super) limit: Limit,
    pub(super) figures: Figures,
}

/// A limit as it is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Limit {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Option<Unit>,
    pub(super) name: String,
}

/// The figures of a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) remaining: u64,
    /// Until the full limit is available again.
    pub(super) reset: Duration,
    /// Until a denied call is admitted.
    pub(super) retry: Option<Duration>,
}

impl From<&Decision> for Figures {
    fn from(decision: &Decision) -> Self {
        let retry = match decision.retry() {
            Some(Retry::After(wait)) => Some(wait),
            _ => None,
        };
        Self { remaining: decision.remaining(), reset: decision.reset_after(), retry }
    }
}
