//! The plan of a request that the lists of a layer leave out, deny, or cannot decide.

use http::request::Parts;

use super::{Plan, PlannedRejection};
use crate::config::LayerConfig;
use portcullis_engine::{Ask, CallerPolicies};
use portcullis_engine::{EventKeys, EventKind};
use portcullis_identity::lists::{ListVerdict, Lists};

/// `None` if the request is limited.
pub(super) fn plan(
    config: &LayerConfig,
    lists: &Lists,
    callers: &CallerPolicies,
    parts: &Parts,
) -> Option<Plan> {
    let limits = &config.limits;
    match lists.decide(parts) {
        ListVerdict::Limited => None,
        ListVerdict::Skipped => {
            limits.emit(EventKind::Skipped, || EventKeys::None);
            Some(Plan::default())
        }
        ListVerdict::Denied => Some(Plan { rejection: Some(PlannedRejection::Denied), ..Plan::default() }),
        ListVerdict::Unidentified(error) => {
            if error.is_client_fault()
                && let Some(first) = config.policies().first()
            {
                let kind = EventKind::IdentityMalformed { policy: first.policy.name(), error: &error };
                limits.emit(kind, || EventKeys::None);
            }
            Some(super::rejection(config, parts, error, Ask::of_caller(limits, callers)))
        }
    }
}
