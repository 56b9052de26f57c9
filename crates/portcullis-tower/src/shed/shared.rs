//! What all services of one layer share: the requests in flight, the limit, and the log.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, TryLockError};

use tokio::time::Instant;

use super::limit::{AdaptiveLimit, Tolerance};
use super::window::{Estimator, Sample};
use crate::event::EventLog;
use crate::registry::ListedShed;

/// The requests in flight of one layer, and their limit.
#[derive(Debug)]
pub(super) struct Shared {
    /// In the low half the requests in flight; in the high half those of them that wait for their response heads.
    counts: AtomicU64,
    limit: AtomicU32,
    /// Whether a request was rejected in this window.
    has_rejected: AtomicBool,
    estimator: Mutex<Estimator>,
    epoch: Instant,
    pub(super) log: EventLog,
}

/// The requests in flight at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub in_flight: u32,
    pub waiting: u32,
}

/// Whether the limit has room for a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    Free(Counts),
    Full { limit: u32, in_flight: u32 },
}

impl Shared {
    pub(super) fn new(floor: u32, ceiling: u32) -> Self {
        let estimator = Estimator::new(AdaptiveLimit::new(floor, ceiling));
        Self {
            counts: AtomicU64::new(0),
            limit: AtomicU32::new(estimator.limit()),
            has_rejected: AtomicBool::new(false),
            estimator: Mutex::new(estimator),
            epoch: Instant::now(),
            log: EventLog::default(),
        }
    }

    /// Counts a request if there is room for it: if fewer are in flight than its share of the limit, in thousandths and rounded up,
    /// or if none waits for its response head, so that there is always one that shows the latency.
    pub(super) fn enter(&self, share: u32) -> Room {
        let limit = self.limit();
        let most = (u64::from(limit) * u64::from(share)).div_ceil(1_000);
        let mut now = self.counts.load(Relaxed);
        loop {
            let Counts { in_flight, waiting } = Counts::of(now);
            if u64::from(in_flight) >= most && waiting > 0 {
                // Read first: a line of memory that is only read is not taken from other cores.
                if !self.has_rejected.load(Relaxed) {
                    self.has_rejected.store(true, Relaxed);
                }
                return Room::Full { limit, in_flight };
            }
            match self.counts.compare_exchange_weak(now, now + ENTERED, Relaxed, Relaxed) {
                Ok(_) => return Room::Free(Counts { in_flight: in_flight + 1, waiting: waiting + 1 }),
                Err(changed) => now = changed,
            }
        }
    }

    /// Counts a request for which there is no room.
    pub(super) fn enter_anyway(&self) -> Counts {
        let Counts { in_flight, waiting } = Counts::of(self.counts.fetch_add(ENTERED, Relaxed));
        Counts { in_flight: in_flight + 1, waiting: waiting + 1 }
    }

    /// A request does not wait for its response head any more.
    pub(super) fn head(&self) {
        self.counts.fetch_sub(WAITING, Relaxed);
    }

    /// A request whose head was there has ended.
    pub(super) fn leave(&self) {
        self.counts.fetch_sub(1, Relaxed);
    }

    /// The time since this was made, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds to what determines the limit, unless another request does so now: none waits for that.
    pub(super) fn sample(&self, sample: Sample, tolerance: Tolerance) {
        let mut estimator = match self.estimator.try_lock() {
            Ok(estimator) => estimator,
            // It is consistent between any two statements.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return,
        };
        if estimator.add(sample, tolerance) {
            let has_rejected = self.has_rejected.swap(false, Relaxed);
            self.limit.store(estimator.close(sample.now, has_rejected, tolerance), Relaxed);
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
