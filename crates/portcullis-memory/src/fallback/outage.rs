//! For how long a store has answered nobody.

use std::num::NonZeroU64;
use std::time::Duration;

use portcullis_core::Timestamp;

use crate::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// For how long a store has answered nobody, as far as it was asked: for stores that do not say so themselves.
#[derive(Debug)]
pub(super) struct Outage {
    /// In microseconds since the epoch.
    since: AtomicU64,
    is_watched: AtomicBool,
}

impl Outage {
    /// From now on somebody wants to know.
    pub(super) fn watch(&self) {
        // A load first: in the long run no core takes the cache line from another.
        if !self.is_watched() {
            self.is_watched.store(true, Relaxed);
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// The store has answered.
    pub(super) fn is_over(&self) {
        if self.since.load(Relaxed) != NEVER {
            self.since.store(NEVER, Relaxed);
        }
    }

    /// The store has not answered. Says for how long it has not, if somebody wants to know.
    pub(super) fn lasts(&self, now: impl FnOnce() -> Timestamp) -> Option<Duration> {
        if !self.is_watched() {
            return None;
        }
        let now = now();
        let since = match self.since.compare_exchange(NEVER, now.as_micros(), Relaxed, Relaxed) {
            Ok(_) => now,
            Err(since) => Timestamp::from_micros(since),
        };
        Some(now.saturating_since(since))
    }
}

impl Default for Outage {
    fn default() -> Self {
        Self { since: AtomicU64::new(NEVER), is_watched: AtomicBool::new(false) }
    }
}

/// A number that no other stand-in of the process has.
pub(super) fn fresh_id() -> NonZeroU64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

    NonZeroU64::new(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
}

/// Later than every [`Timestamp`].
const NEVER: u64 = u64::MAX;
