//! A store whose clock a test sets.

use std::fmt;
use std::sync::Arc;

use portcullis_core::overrides::Block;
use portcullis_core::store::{Check, Checks, Outcome, Renewal, Renewed, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, Timestamp};

use super::{Checked, OverrideChange, SubjectFuture, SystemUnderTest};
use crate::ManualClock;

/// A [`Store`] that takes its time from a [`ManualClock`].
///
/// The store must have been created with a clone of `clock`, which is set before each call. If it [decides single checks at
/// once](Store::check_now), every other one is decided in that way.
///
/// Where time goes backwards, two stores agree only if neither drops expired states in between: an expired state counts
/// again when the clock is set back, unless it was swept.
#[derive(Clone)]
pub struct StoreSubject {
    store: Arc<dyn Store>,
    clock: ManualClock,
    /// Whether the next single check is a [`check`](Store::check) and not a [`check_now`](Store::check_now).
    checks_now: bool,
}

impl StoreSubject {
    /// Creates a subject from a `store` and the `clock` that it was created with.
    pub fn new(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        Self { store, clock, checks_now: false }
    }
}

impl fmt::Debug for StoreSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSubject").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl SystemUnderTest for StoreSubject {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        self.clock.set(now);
        // Both ways of a store that answers at once decide alike, so a sequence mixes them.
        if let [Check { policy, key, cost }] = checks.iter().as_slice() {
            self.checks_now = !self.checks_now;
            let answer = if self.checks_now { self.store.check_now(policy, *key, *cost) } else { None };
            if let Some(answer) = answer {
                let outcome = answer.map(|ready| Outcome::single(checks, ready).expect("there is one check"));
                return Box::pin(async { outcome.map(Checked::from) });
            }
        }
        let answer = self.store.check(checks);
        Box::pin(async { answer.await.map(Checked::from) })
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        self.clock.set(now);
        Box::pin(self.store.refund(receipt))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        self.clock.set(now);
        Box::pin(self.store.settle(receipt, cost))
    }

    fn renew(&mut self, now: Timestamp, renewal: Renewal) -> SubjectFuture<'_, Renewed> {
        self.clock.set(now);
        let answer = self.store.renew(vec![renewal]);
        Box::pin(async { Ok(answer.await?.pop().expect("there is one result per renewal")) })
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.clock.set(now);
        Box::pin(self.store.reset(policy, key))
    }

    fn change_override<'a>(
        &'a mut self,
        now: Timestamp,
        policy: &'a Policy,
        key: Key,
        change: OverrideChange,
    ) -> SubjectFuture<'a, Option<Block>> {
        self.clock.set(now);
        let nothing = |answer: StoreFuture<()>| -> SubjectFuture<'a, Option<Block>> {
            Box::pin(async { answer.await.map(|()| None) })
        };
        match change {
            OverrideChange::Grant(grant) => nothing(self.store.set_grant(policy, key, grant)),
            OverrideChange::Block(length) => nothing(self.store.block(policy, key, length)),
            OverrideChange::Unblock => nothing(self.store.unblock(policy, key)),
            OverrideChange::Denials(denials, lock_out) => {
                Box::pin(self.store.record_denials(policy, key, denials, &lock_out))
            }
        }
    }

    fn keeps_overrides(&self) -> bool {
        true
    }
}
