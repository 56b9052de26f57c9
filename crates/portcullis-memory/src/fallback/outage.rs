//! For how long a store has failed.

use std::num::NonZeroU64;
use std::time::Duration;

use portcullis_core::store::Outcome;
use portcullis_core::{StoreErrorKind, Timestamp};

use crate::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// For how long a store has failed, measured by its calls: for stores that do not state it themselves. One that cannot charge still answers
/// denials, and has recovered only when it has charged.
#[derive(Debug, Default)]
pub(super) struct Outage {
    unanswered: Since,
    refusing: Since,
    is_enabled: AtomicBool,
}

/// The start of an outage, in microseconds since the epoch.
#[derive(Debug)]
struct Since(AtomicU64);

impl Outage {
    /// Measures outages from now on.
    pub(super) fn enable(&self) {
        // Loads first, so that cores do not take the cache line from each other on every call.
        if !self.is_enabled() {
            self.is_enabled.store(true, Relaxed);
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Ends the outage that this answer disproves.
    pub(super) fn record_answer(&self, answer: &Outcome) {
        // An answer of other slots does not show that the failed ones have recovered, and nothing else was sent.
        if answer.failure().is_some() || answer.is_remembered() || answer.is_leased() {
            return;
        }
        self.unanswered.clear();
        if answer.is_allowed() && answer.checks().iter().any(|check| check.cost > 0) {
            self.refusing.clear();
        }
    }

    /// Starts or continues an outage. Returns its length so far, if outages are measured.
    pub(super) fn record_failure(
        &self,
        kind: StoreErrorKind,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Duration> {
        if !self.is_enabled() {
            return None;
        }
        let since = if is_refusal(kind) { &self.refusing } else { &self.unanswered };
        Some(since.start_or_elapsed(now()))
    }
}

impl Since {
    fn clear(&self) {
        // Loads first, so that cores do not take the cache line from each other on every call.
        if self.0.load(Relaxed) != NEVER {
            self.0.store(NEVER, Relaxed);
        }
    }

    fn start_or_elapsed(&self, now: Timestamp) -> Duration {
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

/// Whether the store has answered that it cannot charge; it may still deny.
pub(super) fn is_refusal(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Failed | StoreErrorKind::Forbidden | StoreErrorKind::Unsupported)
}

/// Returns a number that no other fallback of the process has.
pub(super) fn fresh_id() -> NonZeroU64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

    NonZeroU64::new(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
}

/// Later than every [`Timestamp`].
const NEVER: u64 = u64::MAX;
