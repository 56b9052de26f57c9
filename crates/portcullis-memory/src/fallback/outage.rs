//! For how long a store has failed.

use std::num::NonZeroU64;
use std::time::Duration;

use portcullis_core::{Outcome, StoreErrorKind, Timestamp};

use crate::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// For how long a store has failed, as far as it was asked: for stores that do not say so themselves.
///
/// A store that answers nobody is told from one that refuses to charge, such as one that is full: that one still answers
/// denials, and is well again when it has charged.
#[derive(Debug)]
pub(super) struct Outage {
    silent: Since,
    refusing: Since,
    is_watched: AtomicBool,
}

/// In microseconds since the epoch.
#[derive(Debug)]
struct Since(AtomicU64);

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
    pub(super) fn is_over(&self, answer: &Outcome) {
        // Of a part of it that has failed, the answer of the others says nothing; nor does one that it was not asked for.
        if answer.failure().is_some() || answer.is_remembered() {
            return;
        }
        self.silent.forget();
        if answer.is_allowed() && answer.checks().iter().any(|check| check.cost > 0) {
            self.refusing.forget();
        }
    }

    /// The store has failed. Says for how long it has, if somebody wants to know.
    pub(super) fn lasts(&self, kind: StoreErrorKind, now: impl FnOnce() -> Timestamp) -> Option<Duration> {
        if !self.is_watched() {
            return None;
        }
        let since = if is_refusal(kind) { &self.refusing } else { &self.silent };
        Some(since.lasts(now()))
    }
}

impl Since {
    fn forget(&self) {
        // A load first: in the long run no core takes the cache line from another.
        if self.0.load(Relaxed) != NEVER {
            self.0.store(NEVER, Relaxed);
        }
    }

    fn lasts(&self, now: Timestamp) -> Duration {
        let since = match self.0.compare_exchange(NEVER, now.as_micros(), Relaxed, Relaxed) {
            Ok(_) => now,
            Err(since) => Timestamp::from_micros(since),
        };
        now.saturating_since(since)
    }
}

impl Default for Since {
    fn default() -> Self {
        Self(AtomicU64::new(NEVER))
    }
}

impl Default for Outage {
    fn default() -> Self {
        Self { silent: Since::default(), refusing: Since::default(), is_watched: AtomicBool::new(false) }
    }
}

/// Whether the store has answered, and may still deny.
pub(super) fn is_refusal(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Failed | StoreErrorKind::Forbidden | StoreErrorKind::Unsupported)
}

/// A number that no other stand-in of the process has.
pub(super) fn fresh_id() -> NonZeroU64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

    NonZeroU64::new(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
}

/// Later than every [`Timestamp`].
const NEVER: u64 = u64::MAX;
