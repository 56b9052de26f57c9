//! What a fallback reports about itself.

use portcullis_core::Clock;
use portcullis_core::store::{Checks, Figure, Outcome};

use super::LocalStandby;
use crate::figures::Names;
use crate::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Whether and how often the memory has decided in place of the store.
#[derive(Debug, Default)]
pub(super) struct Activity {
    is_active: AtomicBool,
    /// Decisions, in cache lines of their own by key: in an outage every check counts.
    decisions: [Padded; LINES],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Activity {
    /// Records an answer of the store.
    #[inline]
    pub(super) fn record_answer(&self, answer: &Outcome) {
        // Loads first, so that cores do not take the cache line from each other on every call. What was not sent to the store shows
        // nothing, and neither does an answer of which a part has failed.
        if self.is_active.load(Relaxed)
            && answer.failure().is_none()
            && !answer.is_remembered()
            && !answer.is_leased()
        {
            self.is_active.store(false, Relaxed);
        }
    }

    /// Records a decision in memory.
    pub(super) fn record_decision(&self, checks: &Checks) {
        if !self.is_active.load(Relaxed) {
            self.is_active.store(true, Relaxed);
        }
        let key = checks.iter().next().map_or(0, |check| check.key.fingerprint());
        self.decisions[key as usize % LINES].0.fetch_add(1, Relaxed);
    }

    fn decisions(&self) -> u64 {
        self.decisions.iter().map(|line| line.0.load(Relaxed)).sum()
    }
}

impl<C: Clock> LocalStandby<C> {
    pub(super) fn visit_figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let is_active = u64::from(self.activity.is_active.load(Relaxed));
        visit(Figure::gauge("fallback_active", is_active, ACTIVE));
        visit(Figure::counter("fallback_decisions", self.activity.decisions(), DECISIONS));
        self.memory.visit_figures(&Names::FALLBACK, visit);
    }
}

const ACTIVE: &str =
    "Whether the memory has decided in place of the store since the store last answered: 0 or 1.";
const DECISIONS: &str = "Decisions that were made in memory because the store had failed.";
const LINES: usize = 16;
