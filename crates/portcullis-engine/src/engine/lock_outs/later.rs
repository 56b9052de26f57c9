//! Denials that a task reports to the store.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::Block;
use portcullis_core::store::StoreFuture;
use portcullis_core::{Key, Policy};
use tokio::runtime::Handle;

use super::emit;
use crate::engine::Limits;
use crate::limit::PolicyLockOut;
use crate::task::spawn;

/// Counts a denial, which a task reports. Outside of a runtime it is not reported.
pub(super) fn count(limits: &Arc<Limits>, lock_out: &Arc<PolicyLockOut>, policy: &Policy, key: Key) {
    lock_out.later.count(key, || {
        let (limits, lock_out, policy) = (Arc::clone(limits), Arc::clone(lock_out), policy.clone());
        // One for each policy, which takes no place of what requests leave behind.
        Some(spawn(&Handle::try_current().ok()?, report_all(limits, lock_out, policy)))
    });
}

/// Waits for the answer to the report of a denial. Those that follow are counted.
pub(super) fn report(
    limits: &Arc<Limits>,
    lock_out: &Arc<PolicyLockOut>,
    policy: &Policy,
    key: Key,
    pending: StoreFuture<Option<Block>>,
) {
    lock_out.later.report_later();
    let Ok(permit) = limits.engine().backlog.task_permit() else { return };
    let (limits, lock_out, policy) = (Arc::clone(limits), Arc::clone(lock_out), policy.name().clone());
    permit.spawn(async move { emit(&limits, &lock_out, &policy, key, &pending.await) });
}

/// Reports once a second, as long as there is something to report.
async fn report_all(store: Arc<Limits>, lock_out: Arc<PolicyLockOut>, policy: Policy) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let denials = lock_out.later.take();
        if denials.is_empty() {
            return;
        }
        let policy = store.engine().policy_as_of_now(&policy);
        for reports in denials.chunks(MAX_CONCURRENT) {
            let report = |&(key, denials): &(Key, u32)| {
                let answer = store.engine().store().record_denials(&policy, key, denials, lock_out.rule());
                let (store, lock_out, policy) = (Arc::clone(&store), Arc::clone(&lock_out), policy.clone());
                spawn(&Handle::current(), async move {
                    emit(&store, &lock_out, policy.name(), key, &answer.await);
                })
            };
            let pending: Vec<_> = reports.iter().map(report).collect();
            for report in pending {
                // One that panics ends no other.
                let _ = report.await;
            }
        }
    }
}

/// A key is reported at most this often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reports of one policy at the same time: few beside the checks of a store.
const MAX_CONCURRENT: usize = 32;
