//! What all services of one layer share: the requests in flight, the limit, and the log.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use portcullis_engine::EventLog;
use portcullis_tower::internal::ListedShed;
use tokio::time::Instant;

use crate::limit::{AdaptiveLimit, Estimator, LEAST_STALL, Sample, Tolerance};

/// The requests in flight of one layer, and their limit.
#[derive(Debug)]
pub(crate) struct Shared {
    /// In the low half the requests in flight; in the high half those of them that wait for their response heads.
    counts: AtomicU64,
    limit: AtomicU32,
    ceiling: u32,
    /// Whether a request was rejected in this window.
    has_rejected: AtomicBool,
    /// When the first request was rejected since the last response head, or the limit has grown since. 0 if none was.
    stalled_since: AtomicU64,
    estimator: Mutex<Estimator>,
    epoch: Instant,
    pub(crate) log: EventLog,
}

/// The requests in flight at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub in_flight: u32,
    pub waiting: u32,
}

impl Shared {
    pub(crate) fn new(floor: u32, ceiling: u32) -> Self {
        let estimator = Estimator::new(AdaptiveLimit::new(floor, ceiling));
        Self {
            counts: AtomicU64::new(0),
            limit: AtomicU32::new(estimator.limit()),
            ceiling,
            has_rejected: AtomicBool::new(false),
            stalled_since: AtomicU64::new(0),
            estimator: Mutex::new(estimator),
            epoch: Instant::now(),
            log: EventLog::default(),
        }
    }

    /// Counts a request if there is room for it: if fewer than `most` are in flight, or if none waits for its response head and fewer than
    /// `most_of_all` are in flight, so that there is always one that shows the latency.
    ///
    /// # Errors
    ///
    /// How many are in flight.
    #[inline]
    pub(crate) fn enter_below(&self, most: u32, most_of_all: u32) -> Result<Counts, u32> {
        let mut now = self.counts.load(Relaxed);
        loop {
            let Counts { in_flight, waiting } = Counts::of(now);
            if in_flight >= most && (waiting > 0 || in_flight >= most_of_all) {
                return Err(in_flight);
            }
            match self.counts.compare_exchange_weak(now, now + ENTERED, Relaxed, Relaxed) {
                Ok(_) => return Ok(Counts { in_flight: in_flight + 1, waiting: waiting + 1 }),
                Err(changed) => now = changed,
            }
        }
    }

    /// A request is rejected. If none has got its response head for long, what is in flight shows nothing, and only a request that is admitted
    /// would: the limit grows by a step. Also where one caller has caused it, since behind a proxy all requests are of one caller.
    pub(crate) fn rejected(&self, tolerance: Tolerance) {
        // Reading first keeps the cache line shared.
        if !self.has_rejected.load(Relaxed) {
            self.has_rejected.store(true, Relaxed);
        }
        let now = self.now().max(1);
        let since = self.stalled_since.load(Relaxed);
        let set = |since, to| self.stalled_since.compare_exchange(since, to, Relaxed, Relaxed).is_ok();
        if since == 0 {
            set(0, now);
            return;
        }
        let stall = now.saturating_sub(since);
        if stall >= LEAST_STALL
            && let Some(mut estimator) = self.try_estimator()
            && stall >= estimator.patience(tolerance)
            && set(since, now)
        {
            self.limit.store(estimator.grow(now), Relaxed);
        }
    }

    /// Counts a request for which there is no room.
    pub(crate) fn enter_anyway(&self) -> Counts {
        let Counts { in_flight, waiting } = Counts::of(self.counts.fetch_add(ENTERED, Relaxed));
        Counts { in_flight: in_flight + 1, waiting: waiting + 1 }
    }

    /// A request does not wait for its response head any more.
    pub(crate) fn waited(&self) {
        self.counts.fetch_sub(WAITING, Relaxed);
    }

    /// A response head has come.
    pub(crate) fn head(&self) {
        if self.stalled_since.load(Relaxed) != 0 {
            self.stalled_since.store(0, Relaxed);
        }
    }

    /// A request whose head was there has ended.
    pub(crate) fn leave(&self) {
        self.counts.fetch_sub(1, Relaxed);
    }

    /// The time since this was made, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds to what determines the limit, unless another request does so now: none waits for that.
    pub(crate) fn sample(&self, sample: Sample, tolerance: Tolerance) {
        let Some(mut estimator) = self.try_estimator() else { return };
        if estimator.add(sample, tolerance) {
            let has_rejected = self.has_rejected.swap(false, Relaxed);
            self.limit.store(estimator.close(sample.now, has_rejected, tolerance), Relaxed);
        }
    }

    /// The most that the limit can be.
    pub(crate) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    fn try_estimator(&self) -> Option<MutexGuard<'_, Estimator>> {
        match self.estimator.try_lock() {
            Ok(estimator) => Some(estimator),
            // It is consistent between any two statements.
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl ListedShed for Shared {
    #[inline]
    fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    fn in_flight(&self) -> u32 {
        Counts::of(self.counts.load(Relaxed)).in_flight
    }
}

impl Counts {
    #[expect(clippy::cast_possible_truncation, reason = "the halves")]
    fn of(packed: u64) -> Self {
        Self { in_flight: packed as u32, waiting: (packed >> 32) as u32 }
    }
}

const WAITING: u64 = 1 << 32;
const ENTERED: u64 = WAITING + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_shows_the_latency_within_a_bound() {
        let shared = Shared::new(4, 4);
        assert!(shared.enter_below(1, 2).is_ok());
        assert_eq!(shared.enter_below(1, 2).unwrap_err(), 1, "one waits for its head");
        shared.waited();
        assert!(shared.enter_below(1, 2).is_ok());
        shared.waited();
        assert_eq!(shared.enter_below(1, 2).unwrap_err(), 2);
        assert!(shared.enter_below(1, u32::MAX).is_ok());
    }

    #[test]
    fn request_that_is_given_up_ends_no_stall() {
        let shared = Shared::new(4, 4);
        shared.rejected(Tolerance::DEFAULT);
        let since = shared.stalled_since.load(Relaxed);
        assert!(shared.enter_below(4, 4).is_ok() && since != 0);
        shared.waited();
        assert_eq!(shared.stalled_since.load(Relaxed), since);
        shared.head();
        assert_eq!(shared.stalled_since.load(Relaxed), 0);
    }
}
