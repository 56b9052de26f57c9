//! Policies that look first: they are checked with a cost of 0, and charged after the response.

use std::sync::Arc;

use http::request::Parts;
use portcullis_core::StoreError;
use portcullis_core::store::{Check, Outcome};

use super::plan::PlannedChecks;
use super::verdict::{self, Rejected};
use crate::by_outcome;
use crate::config::LayerConfig;

/// Takes the costs of policies that look first out of the checks.
///
/// # Errors
///
/// The rejection, if too many requests are unsettled.
#[expect(clippy::result_large_err, reason = "moved no further than its caller")]
pub(super) fn start(
    config: &Arc<LayerConfig>,
    checks: &mut PlannedChecks,
    parts: &mut Parts,
) -> Result<(), Rejected> {
    for (policy, key, cost) in checks.take_deferred_costs(config) {
        let layer_policy = &config.policies()[policy];
        let stays = layer_policy.keeps_charge(key);
        if !by_outcome::look(config, (policy, key, cost), stays, &mut parts.extensions) {
            return Err(verdict::reject_unsettled(config, layer_policy.policy.name(), parts));
        }
    }
    Ok(())
}

/// Denies a request if nothing remains under a policy that has looked. Returns what the others have charged then, for a refund.
pub(super) fn deny_if_exhausted(
    config: &LayerConfig,
    answer: &mut Result<Outcome, StoreError>,
    parts: &Parts,
) -> Option<Outcome> {
    let outcome = answer.as_mut().ok()?;
    let index_of = |check: &Check| {
        let policies = config.policies().iter();
        policies.map(|layer_policy| layer_policy.policy.name()).position(|name| name == check.policy.name())
    };
    for check in outcome.checks().iter().filter(|check| check.policy.is_granted()) {
        if let Some(index) = index_of(check) {
            by_outcome::set_granted(&parts.extensions, index, &check.policy);
        }
    }
    let has_looked =
        |check: &Check| index_of(check).is_some_and(|index| by_outcome::looks_at(&parts.extensions, index));
    let denial = outcome.denied_if_exhausted(has_looked)?;
    Some(std::mem::replace(outcome, denial))
}
