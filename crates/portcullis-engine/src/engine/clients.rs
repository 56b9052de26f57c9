//! The clients that are blocked under all policies, as this process knows them.

#[cfg(feature = "runtime")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use portcullis_core::overrides::{BlockedClients, ClientChange};
use portcullis_core::store::{CheckResult, Checks, Outcome, ReadyCheck, ServerResult, StoreFuture};
use portcullis_core::{Decision, Key, Policy, StoreError, StoreErrorKind, Timestamp};

use super::Engine;
use crate::Fingerprint;

/// A client that is blocked under all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedClient {
    /// The fingerprint of its key.
    pub fingerprint: Fingerprint,
    /// When the block ends.
    pub until: SystemTime,
}

/// Where a change of what one client may do applies, such as a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockReach {
    /// In this limiter, whose store is not shared, and so keeps no list of clients: other processes do not change, and a restart forgets it.
    Limiter,
    /// In all limiters that share the store: in this one at once, in others within five seconds. A restart keeps it.
    Store,
}

/// What this process knows of the list.
#[derive(Default)]
pub(crate) struct KnownClients {
    /// Whether the list may have clients. Every check reads it, and nothing writes it where no client is blocked.
    is_used: AtomicBool,
    known: RwLock<Known>,
    #[cfg(feature = "runtime")]
    is_followed: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// By the clock of the engine.
    blocked: BlockedClients,
    /// The time of the store when it was read.
    read_at: Timestamp,
}

impl KnownClients {
    fn read<T>(&self, read: impl FnOnce(&BlockedClients) -> T) -> T {
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner).blocked)
    }

    /// Makes a change that no store keeps. Returns whether there was room.
    fn change(&self, change: ClientChange, now: Timestamp) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.blocked.change(change, now);
        self.is_used.store(!known.blocked.is_empty(), Relaxed);
        has_room
    }

    /// Replaces the list by that of a store, unless a later one is known.
    fn replace(&self, blocked: &BlockedClients, read_at: Timestamp, now: Timestamp) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if read_at < known.read_at && known.read_at.saturating_since(read_at) < MAX_REORDER {
            return;
        }
        *known = Known { blocked: blocked.on_clock(read_at, now), read_at };
        self.is_used.store(!known.blocked.is_empty(), Relaxed);
    }
}

impl Engine {
    /// Checks and charges at the store, unless the client of a check is blocked under all policies.
    pub fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        match self.blocked_outcome(&checks) {
            Some(blocked) => StoreFuture::ready(Ok(blocked)),
            None => self.store().check(checks),
        }
    }

    /// Like [`check`](Self::check), for one check that the store may answer at once.
    #[inline]
    pub(crate) fn check_now(
        &self,
        policy: &Policy,
        key: Key,
        cost: u64,
    ) -> Option<Result<ReadyCheck, StoreError>> {
        if self.clients.is_used.load(Relaxed)
            && let Some(blocked) = self.blocked_check(policy, key)
        {
            return Some(Ok(blocked));
        }
        self.store().check_now(policy, key, cost)
    }

    #[cold]
    fn blocked_check(&self, policy: &Policy, key: Key) -> Option<ReadyCheck> {
        let now = self.now();
        let left = self.clients.read(|blocked| blocked.left(key, now))?;
        let CheckResult { snapshot, position, .. } = CheckResult::blocked(policy.strategy(), None, now, left);
        Some(ReadyCheck { decision: Decision::new(policy, now, snapshot), position })
    }

    /// The denial of checks of which one is about a blocked client. Nothing is charged then.
    fn blocked_outcome(&self, checks: &Checks) -> Option<Outcome> {
        if !self.clients.is_used.load(Relaxed) {
            return None;
        }
        let now = self.now();
        let lefts: Vec<_> =
            self.clients.read(|blocked| checks.iter().map(|check| blocked.left(check.key, now)).collect());
        if lefts.iter().all(Option::is_none) {
            return None;
        }
        let results = checks.iter().zip(lefts).map(|(check, left)| match left {
            Some(left) => {
                ServerResult::Store(now, CheckResult::blocked(check.policy.strategy(), None, now, left))
            }
            None => ServerResult::NotAsked,
        });
        Outcome::partial(checks.clone(), results, None)
    }

    /// Whether a denial is that of a client in the list, so that it says nothing of the store.
    #[cold]
    pub(crate) fn has_denied(&self, outcome: &Outcome) -> bool {
        let (now, mut checks) = (self.now(), outcome.checks().iter());
        !outcome.is_allowed()
            && self.clients.read(|blocked| checks.any(|check| blocked.left(check.key, now).is_some()))
    }

    /// Changes the list of the clients that are blocked under all policies. Returns where the change applies.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is full, or the store does not answer.
    pub async fn change_client(&self, change: ClientChange) -> Result<BlockReach, StoreError> {
        match self.store().blocked_clients(Some(change)).await? {
            Some((read_at, blocked)) => {
                self.clients.replace(&blocked, read_at, self.now());
                Ok(BlockReach::Store)
            }
            None if self.clients.change(change, self.now()) => Ok(BlockReach::Limiter),
            None => {
                let message = format!(
                    "{} clients are blocked under all policies, which is the most: unblock one",
                    BlockedClients::MAX
                );
                Err(StoreError::new(StoreErrorKind::Overloaded, message))
            }
        }
    }

    /// Where a change applies that the store makes under one policy, such as a reset or a grant. Does no I/O: a store that is not shared
    /// keeps no list of clients.
    pub fn reach(&self) -> BlockReach {
        match self.store().blocked_clients(None).as_ready() {
            Some(Ok(None)) => BlockReach::Limiter,
            _ => BlockReach::Store,
        }
    }

    /// The clients that are blocked under all policies, as far as this process knows.
    pub fn blocked_clients(&self) -> Vec<BlockedClient> {
        let (now, today) = (self.now(), SystemTime::now());
        let client = |(key, left): (Key, Duration)| BlockedClient {
            fingerprint: key.into(),
            until: today.checked_add(left).unwrap_or(today),
        };
        self.clients.read(|blocked| blocked.living(now).map(client).collect())
    }

    /// Reads the list of the store now, and every [`FOLLOW_EVERY`] from then on, in a task that ends with the engine. It does nothing for a
    /// store that keeps no list, without a runtime, or if it is called again.
    #[cfg(feature = "runtime")]
    pub fn follow_clients(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut answer = self.store().blocked_clients(None);
        if matches!(answer.as_ready(), Some(Ok(None))) || self.clients.is_followed.swap(true, Relaxed) {
            return;
        }
        let engine = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                let read = answer.await;
                let Some(present) = engine.upgrade() else { return };
                match read {
                    Ok(Some((read_at, blocked))) => present.clients.replace(&blocked, read_at, present.now()),
                    Ok(None) => return,
                    // What is known applies: outages are logged by the calls of requests.
                    Err(_) => {}
                }
                drop(present);
                tokio::time::sleep(FOLLOW_EVERY).await;
                let Some(present) = engine.upgrade() else { return };
                answer = present.store().blocked_clients(None);
            }
        });
    }
}

/// How often a process reads the list of a store that several share.
pub const FOLLOW_EVERY: Duration = Duration::from_secs(5);

/// A list that is older than the known one by more than this is one behind a step of the clock of the store.
const MAX_REORDER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
