//! Collects what requests show until there is enough for a change of the limit. Pure: instants are given, in nanoseconds.

use super::{AdaptiveLimit, Observed, Tolerance};

/// The limit, and the window of requests that determines its next change.
#[derive(Debug)]
pub struct Estimator {
    limit: AdaptiveLimit,
    since: u64,
    samples: u32,
    total: u128,
    reports: u32,
    waiting: u32,
    is_pressed: bool,
}

/// A request that has ended, or whose response head is there.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was admitted, in nanoseconds.
    pub started: u64,
    /// When its response head was there, or it has ended, in nanoseconds.
    pub now: u64,
    /// How many requests waited for their response heads when it was admitted, itself included.
    pub waiting: u32,
    /// Whether half of the limit was used then.
    pub is_pressed: bool,
    /// How it has ended.
    pub end: End,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The service has done its work.
    Served,
    /// It has answered with an error, or the client has left: the work would have taken at least as long.
    Unserved,
    /// It has answered that it is overloaded.
    Overloaded,
}

impl Estimator {
    /// Begins at a limit.
    pub fn new(limit: AdaptiveLimit) -> Self {
        Self { limit, since: 0, samples: 0, total: 0, reports: 0, waiting: 0, is_pressed: false }
    }

    /// The limit as it is now.
    pub fn limit(&self) -> u32 {
        self.limit.limit()
    }

    /// How long a service may take for its next response head while requests are rejected, in nanoseconds. Only what takes longer is a stall.
    pub fn patience(&self, tolerance: Tolerance) -> u64 {
        self.limit.longest_known(tolerance).unwrap_or(0).max(LEAST_STALL)
    }

    /// Raises the limit by a step because nothing shows what it should be, and begins another window. Returns the limit.
    pub fn grow(&mut self, now: u64) -> u32 {
        self.limit.grow();
        *self = Self { since: now, ..Self::new(self.limit.clone()) };
        self.limit()
    }

    /// Adds a request. Returns whether the window is complete.
    ///
    /// A request that began before the window does not count: it shows what the limit was before its last change.
    pub fn add(&mut self, sample: Sample, tolerance: Tolerance) -> bool {
        if sample.started < self.since {
            return false;
        }
        let latency = sample.now.saturating_sub(sample.started);
        match sample.end {
            End::Overloaded => self.reports += 1,
            End::Unserved if !self.limit.is_too_long(latency, tolerance) => return false,
            End::Served | End::Unserved => {
                self.total += u128::from(latency.min(self.limit.longest(tolerance)));
                self.samples += 1;
            }
        }
        self.waiting = self.waiting.max(sample.waiting);
        self.is_pressed |= sample.is_pressed;
        self.samples.saturating_add(self.reports) >= LEAST_SAMPLES
            && sample.now.saturating_sub(self.since) >= LEAST_LENGTH
    }

    /// Changes the limit by what the window has shown, and begins the next one. Returns the limit.
    pub fn close(&mut self, now: u64, has_rejected: bool, tolerance: Tolerance) -> u32 {
        let mean = self.total.checked_div(u128::from(self.samples)).unwrap_or(0);
        let observed = Observed {
            latency: u64::try_from(mean).unwrap_or(u64::MAX),
            waiting: self.waiting,
            is_pressed: self.is_pressed || has_rejected,
            reports_overload: self.reports >= self.samples.saturating_add(self.reports).div_ceil(10),
        };
        self.limit.observe(&observed, tolerance);
        *self = Self { since: now, ..Self::new(self.limit.clone()) };
        self.limit()
    }
}

/// The mean of fewer requests varies so much that, where work varies, the latency without load would be taken from the lowest means, and the
/// limit would fall below the capacity within some thousand windows.
pub(super) const LEAST_SAMPLES: u32 = 100;
/// In nanoseconds: 100 ms. A shorter window would follow what ends by itself.
const LEAST_LENGTH: u64 = 100_000_000;
/// In nanoseconds: 1 s without a response head.
pub(crate) const LEAST_STALL: u64 = 1_000_000_000;
