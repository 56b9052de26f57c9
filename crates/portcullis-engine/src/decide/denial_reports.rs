//! Reports denials to the store, which blocks keys with many of them.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::Block;
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key, Policy, PolicyName, Retry, StoreError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::engine::Limits;
use crate::engine::report;
use crate::event::EventKind;
use crate::limit::Limit;
use crate::limit::PolicyLockOut;

/// Counts the denials of an outcome under policies with a lock-out. Never waits for the store.
pub(super) fn count(store: &Arc<Limits>, outcome: &Outcome) {
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

/// Whether a denial counts: one that the store has made, or repeats, because of what one client has used. Those of a blocked key do
/// not, so that a block ends although its client goes on.
fn counts(key: Key, decision: &Decision) -> bool {
    matches!(decision.retry(), Some(Retry::After(_)))
        && !decision.is_blocked()
        && !decision.is_degraded()
        && !key.is_shared()
}

fn count_one(store: &Arc<Limits>, lock_out: &Arc<PolicyLockOut>, policy: &Policy, key: Key) {
    // Outside of a runtime the denial is not reported, and the first ones beyond the number of tasks.
    if lock_out.is_reported_later() {
        lock_out.count(key, || {
            let (store, lock_out, policy) = (Arc::clone(store), Arc::clone(lock_out), policy.clone());
            // One for each policy, which takes no place of what requests leave behind.
            Some(Handle::try_current().ok()?.spawn(report_all(store, lock_out, policy)))
        });
        return;
    }
    match store.engine().store().record_denials(policy, key, 1, lock_out.rule()).into_ready() {
        Ok(answer) => emit(store, lock_out, policy.name(), key, &answer),
        Err(pending) => {
            lock_out.report_later();
            let Ok(permit) = store.engine().task_permit() else { return };
            let (store, lock_out, policy) = (Arc::clone(store), Arc::clone(lock_out), policy.name().clone());
            permit.spawn(async move { emit(&store, &lock_out, &policy, key, &pending.await) });
        }
    }
}

/// Reports once a second, as long as there is something to report.
async fn report_all(store: Arc<Limits>, lock_out: Arc<PolicyLockOut>, policy: Policy) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let denials = lock_out.take();
        if denials.is_empty() {
            return;
        }
        let policy = store.policy_as_of_now(&policy);
        for reports in denials.chunks(MAX_CONCURRENT) {
            let report = |&(key, denials): &(Key, u32)| {
                let answer = store.engine().store().record_denials(&policy, key, denials, lock_out.rule());
                async move { (key, answer.await) }
            };
            let mut pending: JoinSet<_> = reports.iter().map(report).collect();
            while let Some(report) = pending.join_next().await {
                // One that panics ends no other.
                if let Ok((key, answer)) = report {
                    emit(&store, &lock_out, policy.name(), key, &answer);
                }
            }
        }
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
        Err(error) => lock_out.log_failure(policy, error),
    }
}

/// A key is reported at most this often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reports of one policy at the same time: few beside the checks of a store.
const MAX_CONCURRENT: usize = 32;
