//! Reports denials to the store, which blocks keys with many of them.

#[cfg(feature = "runtime")]
mod later;

use std::sync::Arc;

use portcullis_core::overrides::Block;
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key, Policy, PolicyName, Retry, StoreError};

use crate::engine::Limits;
use crate::engine::report;
use crate::event::EventKind;
use crate::limit::Limit;
use crate::limit::PolicyLockOut;

/// Counts the denials of an outcome under policies with a lock-out. Never waits for the store.
pub(crate) fn count(store: &Arc<Limits>, outcome: &Outcome) {
    let policies = store.policies();
    if policies.iter().all(|layer_policy| layer_policy.lock_out.is_none()) {
        return;
    }
    for (check, decision) in outcome.checks().iter().zip(outcome.decisions()) {
        // The policy of the check may have the quota of a grant.
        let layer_policy = policies.iter().find(|one| one.policy.name() == check.policy.name());
        if let Some(Limit { policy, lock_out: Some(lock_out), .. }) = layer_policy
            && counts(check.key, decision)
        {
            count_one(store, lock_out, policy, check.key);
        }
    }
}

/// Whether a denial counts: one that the store has made, or repeats, because of what one client has used. Denials of a blocked key do
/// not, so that a block ends although its client goes on.
fn counts(key: Key, decision: &Decision) -> bool {
    matches!(decision.retry(), Some(Retry::After(_)))
        && !decision.is_blocked()
        && !decision.is_degraded()
        && !key.is_shared()
}

/// Reports a denial. Where the store does not answer at once, a task does; without a runtime nothing waits for the answer.
fn count_one(limits: &Arc<Limits>, lock_out: &Arc<PolicyLockOut>, policy: &Policy, key: Key) {
    #[cfg(feature = "runtime")]
    if lock_out.later.is_reported_later() {
        later::count(limits, lock_out, policy, key);
        return;
    }
    match limits.engine().store().record_denials(policy, key, 1, lock_out.rule()).into_ready() {
        Ok(answer) => emit(limits, lock_out, policy.name(), key, &answer),
        #[cfg(feature = "runtime")]
        Err(pending) => later::report(limits, lock_out, policy, key, pending),
        #[cfg(not(feature = "runtime"))]
        Err(_) => {}
    }
}

/// Emits the block that begins with a report. A report that fails is lost.
fn emit(
    store: &Limits,
    lock_out: &PolicyLockOut,
    policy: &PolicyName,
    key: Key,
    answer: &Result<Option<Block>, StoreError>,
) {
    match answer {
        Ok(Some(block)) => {
            report::of_key(store, policy, key, EventKind::LockedOut { policy, block: *block });
        }
        Ok(None) => {}
        // The calls for requests show the state of the store, and emit it.
        #[cfg(feature = "runtime")]
        Err(error) => lock_out.log_failure(policy, error, &store.engine().backlog.unsaid_lines),
        #[cfg(not(feature = "runtime"))]
        Err(_) => _ = lock_out,
    }
}
