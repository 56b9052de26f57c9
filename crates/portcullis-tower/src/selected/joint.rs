//! The door of calls that are about several requests: all are charged, or none.

mod group;
mod member;
mod planned;
mod reserve;
mod usage;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use portcullis_core::Decision;

use crate::{KeyError, Selection};
use planned::Planned;
pub use reserve::{HeldUnits, JointReservation, TooMuchReserved, receipts, reserve};

/// A request of a call.
#[derive(Debug)]
pub struct JointRequest {
    /// The layer that was chosen for it.
    pub selection: Selection,
    /// The head of the request.
    pub parts: Parts,
    /// The units that it is charged in place of one, in addition to what its cost exceeds one by; a limit of which it costs nothing
    /// charges nothing. Of 0 nothing is charged, and one has to be left.
    pub units: u64,
}

/// Which calls that are denied charge what is left of each of their limits, at most their units. Usage that is reported after the response
/// has happened, whether it fits or not: without it, a budget that is only reported to never ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChargeDenied {
    /// None.
    Never,
    /// Those that report usage: of more than one unit, or under a limit whose calls are [reports](crate::Limit::report).
    #[default]
    Reports,
    /// All.
    Always,
}

impl ChargeDenied {
    /// Whether a call that is denied is charged. `is_report` says whether it reports usage.
    pub fn includes(self, is_report: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Never => false,
            Self::Reports => is_report(),
            Self::Always => true,
        }
    }
}

/// The decision about a call.
#[derive(Debug, Default)]
pub struct JointDecision {
    /// The decisive decision about each request; `None` if nothing counts it, or is known of it.
    pub decisions: Vec<Option<Decision>>,
    /// The first request that is rejected.
    pub rejected: Option<JointRejection>,
    /// What a layer answers to the request that is rejected, or else adds to the response of the last one.
    pub response: Response<Full<Bytes>>,
}

/// Decides about the requests of a call. As many as fit into one decision are decided at once; what was charged for those before is
/// refunded if one is rejected, and then charged as `charge_denied` says. In a trial, events tell what would be rejected, as for policies
/// that are tried out.
///
/// # Cancel safety
///
/// If the future is dropped, what was charged may stay so, and what is left may stay uncharged.
pub async fn decide(
    requests: Vec<JointRequest>,
    is_trial: bool,
    charge_denied: ChargeDenied,
) -> JointDecision {
    let mut planned = Planned::of(requests, is_trial);
    planned.decide(charge_denied).await;
    planned.decision
}

/// A request of a call that is rejected.
#[derive(Debug)]
pub struct JointRejection {
    /// Its place in the call.
    pub request: usize,
    /// The status of the response, or of the rejection in HTTP if the response has that of a success, as in gRPC.
    pub status: StatusCode,
    /// Why its key could not be found.
    pub error: Option<KeyError>,
}

impl JointDecision {
    fn reject(
        &mut self,
        request: usize,
        error: Option<KeyError>,
        status: StatusCode,
        response: Response<Full<Bytes>>,
    ) {
        self.rejected = Some(JointRejection { request, status, error });
        self.response = response;
    }
}
