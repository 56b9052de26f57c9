//! Plans a request that the lists of its layer deny or do not limit.

use http::request::Parts;

use super::Plan;
use super::plan::{self, PlannedRejection};
use crate::config::LayerConfig;
use crate::event::EventKind;
use crate::lists::{ListVerdict, Lists};

/// `None` for a request that is limited as without lists. A plan without checks admits a request that carries nothing.
pub(super) fn plan(config: &LayerConfig, lists: &Lists, parts: &Parts) -> Option<Plan> {
    match lists.decide(parts) {
        ListVerdict::Limited => None,
        ListVerdict::Skipped => {
            config.store.emit(EventKind::Skipped);
            Some(Plan::default())
        }
        ListVerdict::Denied => Some(Plan { rejection: Some(PlannedRejection::Denied), ..Plan::default() }),
        ListVerdict::Unidentified(error) => {
            if error.is_client_fault()
                && let Some(first) = config.policies().first()
            {
                let policy = first.policy.name();
                config.store.emit(EventKind::IdentityMalformed { policy, error: &error });
            }
            Some(plan::plan_rejection(config, parts, error, plan::kept_keys(config)))
        }
    }
}
