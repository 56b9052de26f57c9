//! The overrides that answers of the store have shown, for an outage.

use portcullis_core::overrides::{Effect, Override};
use portcullis_core::store::{Check, Outcome};
use portcullis_core::{Clock, Key, Policy, Retry, Timestamp};
use std::sync::PoisonError;

use crate::overrides::{Displaces, Overrides};
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Grants and blocks of a bounded number of keys, with their ends on the clock of the process.
#[derive(Debug)]
pub(super) struct KnownOverrides {
    shards: Box<[Mutex<Overrides>]>,
    /// Whether any was ever known: until then, an answer takes no lock.
    is_used: AtomicBool,
}

impl KnownOverrides {
    /// About this number of keys.
    pub(super) fn new(capacity: usize) -> Self {
        let each = capacity.div_ceil(SHARDS).max(1);
        let shards = (0..SHARDS).map(|_| Mutex::new(Overrides::new(each))).collect();
        Self { shards, is_used: AtomicBool::new(false) }
    }

    /// Remembers the overrides that decided an answer of the store, and forgets those that did not.
    pub(super) fn record(&self, answer: &Outcome, clock: &impl Clock) {
        // What was not sent to the store shows nothing.
        if answer.is_remembered() {
            return;
        }
        for (index, Check { policy, key, .. }) in answer.checks().iter().enumerate() {
            let decision = &answer.decisions()[index];
            if !policy.reads_overrides()
                || !(decision.is_metered() || decision.is_unlimited())
                || decision.is_degraded()
            {
                continue;
            }
            if let (true, Some(Retry::After(left))) = (decision.is_blocked(), decision.retry()) {
                // The answer does not show whether there is a grant.
                self.change(policy, *key, clock.now(), |known, now| known.set_block(now, left));
            } else if let Some((grant, left)) =
                answer.grant(index).and_then(|grant| Some((grant, grant.left(decision.at())?)))
            {
                self.change(policy, *key, clock.now(), |known, now| {
                    known.unblock();
                    known.set_grant(now, Some((grant.quota(), left)));
                });
            } else if self.is_used.load(Ordering::Relaxed) {
                self.change(policy, *key, clock.now(), |known, _| *known = Override::NONE);
            }
        }
    }

    /// What the override that is known of a key does to a check.
    pub(super) fn effect(&self, policy: &Policy, key: Key, now: Timestamp) -> Effect {
        if !policy.reads_overrides() || !self.is_used.load(Ordering::Relaxed) {
            return Effect::None;
        }
        let id = id(policy, key);
        self.shard(id).lock().unwrap_or_else(PoisonError::into_inner).effect(id, policy, now)
    }

    /// Changes what is known of a key. If there is no room, it is not known.
    pub(super) fn change(
        &self,
        policy: &Policy,
        key: Key,
        now: Timestamp,
        change: impl FnOnce(&mut Override, Timestamp),
    ) {
        let id = id(policy, key);
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        let mut known = self.shard(id).lock().unwrap_or_else(PoisonError::into_inner);
        let _ = known.change(id, now, Displaces::Blocks, |known| change(known, now));
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    fn shard(&self, id: u128) -> &Mutex<Overrides> {
        &self.shards[(id >> 64) as usize & (SHARDS - 1)]
    }
}

fn id(policy: &Policy, key: Key) -> u128 {
    key.fingerprint() ^ policy.override_digest()
}

/// A power of two.
const SHARDS: usize = 16;
