//! How much to lease.

use core::time::Duration;

use super::MAX_LIFETIME;

/// Decides how many units to lease of one key: the expected demand of one second, less near the limit, and none for a key
/// with low demand.
///
/// Demand is counted in two intervals of a quarter of a second, the current and the previous one. A key is hot if it has had at
/// least [`HOT`](Sizing::HOT) requests in them.
///
/// ```
/// use core::time::Duration;
/// use portcullis_core::lease::Sizing;
///
/// let at = |millis| Duration::from_millis(millis);
/// let mut sizing = Sizing::new(at(0));
/// for millis in 0..500 {
///     sizing.requested(1, at(millis));
/// }
/// sizing.answered(10_000, at(499));
/// assert!((900..=1_100).contains(&sizing.size(1, 5_000, at(500))));
///
/// // Near the limit a lease is at most half of what remains, and the last units are not leased.
/// sizing.answered(101, at(500));
/// assert_eq!(sizing.size(1, 5_000, at(500)), 50);
/// sizing.answered(7, at(500));
/// assert_eq!(sizing.size(1, 5_000, at(500)), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sizing {
    current: Interval,
    previous: Interval,
    /// When the current interval began.
    begun: Duration,
    /// What the store has reported last as remaining, and when.
    remaining: Option<(u64, Duration)>,
    /// Until when nothing is leased.
    paused: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Interval {
    requests: u64,
    units: u64,
}

impl Sizing {
    /// The least number of requests, in at most half a second, of a key that is leased.
    pub const HOT: u64 = 10;

    /// The least number of further requests of the same cost that a lease has to pay for. It also makes the last units exact, see
    /// [`size`](Sizing::size).
    pub const MIN_REQUESTS: u64 = 4;

    /// A key without requests.
    pub const fn new(now: Duration) -> Self {
        let none = Interval { requests: 0, units: 0 };
        Self { current: none, previous: none, begun: now, remaining: None, paused: Duration::ZERO }
    }

    /// Records a request for `cost` units, whatever is decided about it.
    pub fn requested(&mut self, cost: u64, now: Duration) {
        let age = now.saturating_sub(self.begun);
        if age >= INTERVAL.saturating_mul(2) {
            (self.previous, self.current, self.begun) = (Interval::default(), Interval::default(), now);
        } else if age >= INTERVAL {
            (self.previous, self.current) = (self.current, Interval::default());
            self.begun = self.begun.saturating_add(INTERVAL);
        }
        self.current.requests = self.current.requests.saturating_add(1);
        self.current.units = self.current.units.saturating_add(cost);
    }

    /// Records what the store has reported as remaining.
    pub const fn answered(&mut self, remaining: u64, now: Duration) {
        self.remaining = Some((remaining, now));
    }

    /// Records that the store has denied a check because of the units for a lease. Nothing is leased for a quarter of a second.
    pub fn denied(&mut self, now: Duration) {
        self.remaining = None;
        self.paused = now.saturating_add(INTERVAL);
    }

    /// The units to lease in addition to `cost`, at most `room`: the expected demand of a second, and at most half of what
    /// remains after `cost`, so that other processes have as much. 0 if that is less than
    /// [`MIN_REQUESTS`](Sizing::MIN_REQUESTS) times `cost`, if the key is not hot, or if the store has not reported what remains
    /// within the last second.
    pub fn size(&self, cost: u64, room: u64, now: Duration) -> u64 {
        let Some((remaining, reported)) = self.remaining else { return 0 };
        if now < self.paused || now.saturating_sub(reported) > MAX_LIFETIME {
            return 0;
        }
        let half = remaining.saturating_sub(cost) / 2;
        let units = self.demand(now).min(room).min(half);
        if units < Self::MIN_REQUESTS.saturating_mul(cost) { 0 } else { units }
    }

    /// The number of requests in the current and the previous interval.
    pub fn recent_requests(&self, now: Duration) -> u64 {
        if now.saturating_sub(self.begun) >= INTERVAL.saturating_mul(2) {
            return 0;
        }
        self.current.requests.saturating_add(self.previous.requests)
    }

    /// The expected demand of a second in units; 0 for a key that is not hot.
    fn demand(&self, now: Duration) -> u64 {
        if self.recent_requests(now) < Self::HOT {
            return 0;
        }
        let age = now.saturating_sub(self.begun);
        let before = if self.previous.requests > 0 { INTERVAL } else { Duration::ZERO };
        // A first interval counts as a whole one: a few requests in a millisecond are not a demand of thousands.
        let counted = age.saturating_add(before).max(INTERVAL).as_micros();
        let units = u128::from(self.current.units.saturating_add(self.previous.units));
        let expected = units.saturating_mul(MAX_LIFETIME.as_micros()).checked_div(counted).unwrap_or(0);
        u64::try_from(expected).unwrap_or(u64::MAX)
    }
}

/// The length of an interval.
const INTERVAL: Duration = Duration::from_millis(250);
