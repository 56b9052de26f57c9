//! The door of calls that are about several requests: all are charged, or none.

mod group;
mod member;
mod usage;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use portcullis_core::Decision;
use portcullis_engine::{Admitted, Keep, Refunds};

use crate::{KeyError, Selection};
use group::Group;
use member::Member;

/// A request of a call.
#[derive(Debug)]
pub struct JointRequest {
    /// The layer that was chosen for it.
    pub selection: Selection,
    /// The head of the request.
    pub parts: Parts,
    /// The units that it is charged in place of one, in addition to what its cost exceeds one by. Of 0 nothing is charged, and one
    /// has to be left.
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
    let mut decision = JointDecision { decisions: vec![None; requests.len()], ..JointDecision::default() };
    let mut groups: Vec<Group> = Vec::new();
    let mut refused = None;
    for (number, request) in requests.into_iter().enumerate() {
        match Member::of(number, request, is_trial) {
            Ok(None) => {}
            Ok(Some(member)) => match groups.last_mut() {
                Some(last) if last.has_room_for(&member) => last.add(member),
                _ => groups.push(Group::of(member)),
            },
            // Those before it may be denied, and those behind it are not decided.
            Err(planned) => {
                refused = Some((number, planned));
                break;
            }
        }
    }
    let mut admitted: Vec<Admitted> = Vec::with_capacity(groups.len());
    for group in &mut groups {
        match group.decide(&mut decision).await {
            Some(by) => admitted.push(by),
            None => break,
        }
    }
    if decision.rejected.is_none()
        && let Some((number, refused)) = refused
    {
        let (error, status, response) = refused.respond().await;
        decision.reject(number, error, status, response);
    }
    if decision.rejected.is_some() {
        for (group, by) in groups.iter().zip(admitted) {
            Refunds::start(group.limits(), by.charged.as_ref(), None, Keep::Nothing).await;
        }
        let is_denied = groups.iter().any(Group::is_denied);
        if is_denied && charge_denied.includes(|| groups.iter().any(Group::reports)) {
            for group in &mut groups {
                group.use_up().await;
            }
        }
        return decision;
    }
    for (group, by) in groups.iter().zip(&admitted) {
        group.admit(by, &mut decision);
        if charge_denied.includes(|| groups.iter().any(Group::reports)) {
            group.use_up_tried(by).await;
        }
    }
    if let Some((last, by)) = groups.last().zip(admitted.last()) {
        decision.response = last.response(by);
    }
    decision
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
