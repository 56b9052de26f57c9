//! The adaptive limit on requests in flight: pure arithmetic, without a clock.
//!
//! The latency to the response head is compared with that of the service without load. By Little's law, of `n` requests in
//! progress `n * (1 - unloaded / latency)` wait in a queue somewhere inside of the service. The limit grows while nearly none wait,
//! shrinks while too many wait, and stays in between: between the two there is room for more than a step, so that a constant load ends
//! in a constant limit.
//!
//! Sources: Brakmo, O'Malley, Peterson, "TCP Vegas: New Techniques for Congestion Detection and Avoidance" (1994), for the estimate of
//! the queue and its two thresholds; Netflix, `concurrency-limits`, `VegasLimit` and `Gradient2Limit`, for the transfer to requests, the
//! tolerance as a ratio of latencies, and the rule that a limit that is not used says nothing; Envoy, "Adaptive Concurrency", for
//! learning the latency without load where concurrency is lowest.

mod window;

use portcullis_engine::Class;

#[cfg(feature = "layer")]
pub(crate) use window::LEAST_STALL;
pub use window::{End, Estimator, Sample};

/// How much of the limit requests of a class may fill, together with all others, in thousandths. `reserved` is what only critical requests may
/// fill, and `background` the most that background requests may.
pub fn share(class: Class, reserved: u32, background: u32) -> u32 {
    match class {
        Class::Critical => WHOLE,
        Class::Default => WHOLE - reserved,
        Class::Background => background.min(WHOLE - reserved),
    }
}

/// How much of a limit a class may fill, together with all others. `share` is in thousandths, and the result is rounded up.
pub fn most(limit: u32, share: u32) -> u32 {
    u32::try_from((u64::from(limit) * u64::from(share)).div_ceil(1_000)).unwrap_or(limit)
}

/// A limit, and the latency of the service without load.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    floor: u32,
    ceiling: u32,
    limit: u32,
    /// In nanoseconds. `None` until the first window has ended.
    unloaded: Option<u64>,
    /// Whether the limit has only grown so far: it doubles then.
    is_starting: bool,
}

/// What the requests of one window have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// The mean time to the response head, in nanoseconds.
    pub latency: u64,
    /// How many requests were waiting for their response heads, at most.
    pub waiting: u32,
    /// Whether the limit was used: by half, or until a request was rejected.
    pub is_pressed: bool,
    /// Whether the service itself has reported that it is overloaded.
    pub reports_overload: bool,
}

/// By how much the latency may exceed that of the service without load: a ratio, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance(u64);

impl Tolerance {
    #[cfg(test)]
    pub(crate) const DEFAULT: Self = Self(2_000);

    /// `None` below 1.1 and above 10.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 100 to 10 000")]
    pub fn new(ratio: f64) -> Option<Self> {
        (1.1..=10.0).contains(&ratio).then(|| Self((ratio * 1_000.0).round() as u64))
    }

    /// A latency `quarters` quarters of the way from that without load to the longest that is tolerated.
    fn latency(self, unloaded: u64, quarters: u64) -> u64 {
        let beyond = u128::from(unloaded) * u128::from((self.0 - 1_000) * quarters) / 4_000;
        unloaded.saturating_add(saturated(beyond))
    }
}

impl AdaptiveLimit {
    /// Begins at the floor, where the latency without load is learned. `floor` is at least 1 and at most `ceiling`.
    pub fn new(floor: u32, ceiling: u32) -> Self {
        Self { floor, ceiling, limit: floor, unloaded: None, is_starting: true }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// The longest latency that a window may show and still add to its mean: one request that is slow for a reason of its own does not
    /// outweigh all others. The largest number before a latency is known.
    pub(crate) fn longest(&self, tolerance: Tolerance) -> u64 {
        self.longest_known(tolerance).unwrap_or(u64::MAX)
    }

    /// Like [`longest`](Self::longest), but `None` before a latency is known.
    pub(crate) fn longest_known(&self, tolerance: Tolerance) -> Option<u64> {
        self.unloaded.map(|unloaded| tolerance.latency(unloaded.saturating_add(NOISE), 4 * 4))
    }

    /// Raises the limit by one step.
    pub(crate) fn grow(&mut self) {
        self.set(u64::from(self.limit) + u64::from(self.step()));
    }

    fn step(&self) -> u32 {
        (self.limit.isqrt() / 2).max(1)
    }

    /// Whether a latency is longer than tolerated.
    pub(crate) fn is_too_long(&self, latency: u64, tolerance: Tolerance) -> bool {
        self.unloaded.is_some_and(|unloaded| latency > tolerance.latency(unloaded.saturating_add(NOISE), 4))
    }

    /// Takes over what a window has shown.
    pub(crate) fn observe(&mut self, seen: &Observed, tolerance: Tolerance) {
        if seen.reports_overload {
            self.is_starting = false;
            return self.set(u64::from(self.limit) * 9 / 10);
        }
        let unloaded = *self.unloaded.get_or_insert(seen.latency);
        if !seen.is_pressed {
            // Without load the latency is what it is, also if it has become longer.
            return self.learn(seen.latency, 4);
        }
        let (latency, unloaded) = (seen.latency.saturating_add(NOISE), unloaded.saturating_add(NOISE));
        let queued_at = |latency: u64| queued(seen.waiting, unloaded, latency);
        let queue = queued_at(latency);
        let (few, many) =
            (queued_at(tolerance.latency(unloaded, 2)), queued_at(tolerance.latency(unloaded, 4)));
        if queue < few.max(1) {
            if latency < unloaded {
                self.learn(seen.latency, 3);
            }
            let step = if self.is_starting { self.limit } else { self.step() };
            return self.set(u64::from(self.limit) + u64::from(step));
        }
        self.is_starting = false;
        if self.limit == self.floor && seen.waiting <= self.floor {
            // So few requests do not overload the service: it has become slower.
            self.learn(seen.latency, 1);
        } else if queue > many.max(2) {
            // A latency in a queue is proportional to the requests in progress.
            let target = tolerance.latency(unloaded, 3);
            let smaller = u128::from(self.limit) * u128::from(target) / u128::from(latency);
            self.set(saturated(smaller).max(u64::from(self.limit / 2)).min(u64::from(self.limit) - 1));
        }
    }

    fn set(&mut self, limit: u64) {
        self.limit = u32::try_from(limit).unwrap_or(u32::MAX).clamp(self.floor, self.ceiling);
    }

    /// Moves the latency without load by `1 / 2^shift` of the difference.
    fn learn(&mut self, latency: u64, shift: u32) {
        self.unloaded = self.unloaded.map(|unloaded| {
            let step = unloaded.abs_diff(latency) >> shift;
            if latency > unloaded { unloaded + step } else { unloaded - step }
        });
    }
}

/// How many of the requests wait in a queue, rounded down.
fn queued(waiting: u32, unloaded: u64, latency: u64) -> u32 {
    let busy = (u128::from(waiting) * u128::from(unloaded)).div_ceil(u128::from(latency));
    waiting.saturating_sub(u32::try_from(busy).unwrap_or(u32::MAX))
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// All of the limit.
pub const WHOLE: u32 = 1_000;
/// A millisecond, which is added to both latencies: differences of microseconds are those of the scheduler, not of a queue.
const NOISE: u64 = 1_000_000;

#[cfg(test)]
mod tests;
