//! The closed set of algorithms.

mod algorithm;
mod permits;
mod quota;
mod structure;

use core::time::Duration;

use crate::algorithm::{
    Algorithm, CalendarCount, Evaluation, Figures, ForcedCharge, Log, Meter, Permits, Slots, Snapshot, State,
    Tat, Transition, Window,
};
use crate::charge::Position;
use crate::refund::Refund;
use crate::{
    CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};

pub use structure::Structure;

/// An algorithm with its parameters.
///
/// The enum is exhaustive on purpose: after a new algorithm is added, a store does not compile until it handles it.
#[cfg_attr(feature = "serde", doc = include_str!("serde_form/strategy.md"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: see above.
pub enum Strategy {
    /// Tokens that are refilled at a rate.
    TokenBucket(TokenBucket),
    /// Evenly spaced requests with a burst.
    Gcra(Gcra),
    /// A queue with constant outflow.
    LeakyBucket(LeakyBucket),
    /// A count per window.
    FixedWindow(FixedWindow),
    /// A count per month or week of a calendar.
    CalendarWindow(CalendarWindow),
    /// A count per slot, the oldest weighted by its overlap with the window.
    SlidingWindow(SlidingWindow),
    /// Every unit with its timestamp.
    SlidingLog(SlidingLog),
    /// Permits that are held until they are released.
    InFlight(InFlight),
}

/// Evaluates an expression with the algorithm of a strategy.
macro_rules! with_algorithm {
    ($strategy:expr, $algorithm:ident => $call:expr) => {
        match $strategy {
            Strategy::TokenBucket($algorithm) => $call,
            Strategy::Gcra($algorithm) => $call,
            Strategy::LeakyBucket($algorithm) => $call,
            Strategy::FixedWindow($algorithm) => $call,
            Strategy::CalendarWindow($algorithm) => $call,
            Strategy::SlidingWindow($algorithm) => $call,
            Strategy::SlidingLog($algorithm) => $call,
            Strategy::InFlight($algorithm) => $call,
        }
    };
}

impl Strategy {
    /// A short name for keys, labels and files. It is part of a store's keys, so another strategy has another key.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::Gcra(_) => "gcra",
            Self::LeakyBucket(_) => "leaky_bucket",
            Self::FixedWindow(_) => "fixed_window",
            Self::CalendarWindow(_) => "calendar_window",
            Self::SlidingWindow(_) => "sliding_window",
            Self::SlidingLog(_) => "sliding_log",
            Self::InFlight(_) => "in_flight",
        }
    }

    /// The most units that can be admitted at one instant without a [wait](crate::Policy::wait_at_most): the limit of windows, the
    /// log and of requests in flight, the burst of rate-based algorithms.
    pub const fn limit(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.meter().burst(),
            Self::Gcra(gcra) => gcra.meter().burst(),
            Self::LeakyBucket(bucket) => bucket.meter().burst(),
            Self::FixedWindow(window) => window.limit(),
            Self::CalendarWindow(window) => window.limit(),
            Self::SlidingWindow(window) => window.limit(),
            Self::SlidingLog(log) => log.limit(),
            Self::InFlight(limit) => limit.limit(),
        }
    }

    /// The time in which [`limit`](Strategy::limit) units become available again: the period of windows and the log; for
    /// rate-based algorithms the time that the full burst takes to refill, rounded up to a microsecond or, with interval
    /// refill, to whole intervals; for calendar windows the length of the longest one; for requests in flight the
    /// lease.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Policy, Quota};
    ///
    /// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
    /// assert_eq!(burst.strategy().window(), Duration::from_secs(2));
    /// let daily = Policy::fixed_window("daily", Quota::per_day(5));
    /// assert_eq!(daily.strategy().window(), Duration::from_hours(24));
    /// ```
    pub const fn window(&self) -> Duration {
        match self {
            Self::TokenBucket(bucket) => fill_time(bucket.meter()),
            Self::Gcra(gcra) => fill_time(gcra.meter()),
            Self::LeakyBucket(bucket) => fill_time(bucket.meter()),
            Self::FixedWindow(window) => window.period(),
            Self::CalendarWindow(window) => window.table().longest(),
            Self::SlidingWindow(window) => window.period(),
            Self::SlidingLog(log) => log.period(),
            Self::InFlight(limit) => limit.lease(),
        }
    }

    /// Whether an admitted request may have a delay, until units that were admitted before it have drained: under a leaky bucket,
    /// and under a token bucket or GCRA with a longest [wait](crate::Policy::wait_at_most).
    #[inline]
    pub const fn queues(&self) -> bool {
        match self {
            Self::LeakyBucket(_) => true,
            Self::TokenBucket(bucket) => bucket.meter().wait() > 0,
            Self::Gcra(gcra) => gcra.meter().wait() > 0,
            Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::SlidingWindow(_)
            | Self::SlidingLog(_)
            | Self::InFlight(_) => false,
        }
    }

    /// The work that a check causes on the server of a store, in slots of a sliding window, at least 1.
    ///
    /// | strategy | work |
    /// |---|---|
    /// | sliding window | its slots |
    /// | sliding log | one per 100 units of the limit, or of half of the limit and the largest [debt](crate::Policy::allow_debt) if that is more, rounded up; a charge or refund writes up to the whole log |
    /// | requests in flight | one per 10 permits of the limit, rounded up |
    /// | any other | 1 |
    ///
    /// [`Checks::MAX_WORK`](crate::store::Checks::MAX_WORK) bounds the sum over all checks of a decision.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// assert_eq!(Policy::gcra("burst", Quota::per_second(1_000)).strategy().work(), 1);
    /// assert_eq!(Policy::sliding_log("log", Quota::per_hour(2_000)).strategy().work(), 20);
    /// ```
    pub const fn work(&self) -> u32 {
        match self {
            Self::SlidingWindow(window) => window.slots(),
            Self::SlidingLog(log) => work_of_log(log),
            Self::InFlight(limit) => slots_of_work(limit.limit(), PERMITS_PER_SLOT),
            Self::TokenBucket(_)
            | Self::Gcra(_)
            | Self::LeakyBucket(_)
            | Self::FixedWindow(_)
            | Self::CalendarWindow(_) => 1,
        }
    }

    /// Whether `cost` units fit at `now`, and whether the state needs repair. A cost of 0 is a peek, always admitted.
    #[inline]
    pub fn evaluate(&self, state: Option<&State>, now: Timestamp, cost: u64) -> Evaluation {
        with_algorithm!(self, algorithm => algorithm.evaluate(state_of(state), now, cost))
    }

    /// Brings a state to `now`: sets it to `None` if it has expired, and moves it if the clock has stepped.
    pub fn advance(&self, state: &mut Option<State>, now: Timestamp) {
        with_algorithm!(self, algorithm => in_place(state, |inner| algorithm.advance(inner, now)));
    }

    /// Charges `units` that were found to fit, to the state at `now`.
    #[inline]
    pub fn charge(&self, state: &mut Option<State>, now: Timestamp, units: u64) {
        with_algorithm!(self, algorithm => in_place(state, |inner| algorithm.charge(inner, now, units)));
    }

    /// Applies a decision for `cost` to the state: charges it, or repairs it if that is needed. Returns whether the state
    /// has changed, so that it has to be written.
    #[inline]
    pub fn apply_decision(
        &self,
        state: &mut Option<State>,
        now: Timestamp,
        cost: u64,
        evaluation: Evaluation,
        charge: bool,
    ) -> bool {
        let charges = charge && cost > 0;
        if charges {
            self.charge(state, now, cost);
        } else if evaluation.repair {
            self.advance(state, now);
        }
        charges || evaluation.repair
    }

    /// Frees the units of `refund`, as far as the state still holds them. Returns whether the state has changed.
    pub fn refund(&self, state: &mut Option<State>, now: Timestamp, refund: Refund<'_>) -> bool {
        with_algorithm!(self, algorithm => in_place(state, |inner| algorithm.refund(inner, now, refund)))
    }

    /// Charges `units` whether they fit or not, up to the largest [debt](crate::Policy::allow_debt).
    pub fn force_charge(&self, state: &mut Option<State>, now: Timestamp, units: u64) -> ForcedCharge {
        with_algorithm!(self, algorithm => in_place(state, |inner| algorithm.force_charge(inner, now, units)))
    }

    /// The figures of a decision, computed from the `state` after it.
    #[inline]
    pub fn snapshot(&self, state: Option<&State>, now: Timestamp, cost: u64, admitted: bool) -> Snapshot {
        with_algorithm!(self, algorithm => algorithm.snapshot(state_of(state), now, cost, admitted))
    }

    #[inline]
    fn figures(&self, state: Option<&State>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        with_algorithm!(self, algorithm => algorithm.figures(state_of(state), now, cost, admitted))
    }

    /// The position of the charge that led to `state` at `now`, for a refund.
    #[inline]
    pub fn position(&self, state: Option<&State>, now: Timestamp) -> Position {
        with_algorithm!(self, algorithm => algorithm.position(state_of(state), now))
    }

    /// The position that a charge would have without its newest `units` units: under a rate-based algorithm one interval
    /// earlier per unit, under windows and logs unchanged, for requests in flight the position of the permit before.
    ///
    /// ```
    /// use portcullis::store::Position;
    /// use portcullis::{Policy, Quota};
    ///
    /// let (pages, daily) = (Policy::gcra("pages", Quota::per_second(3)), Policy::fixed_window("daily", Quota::per_day(3)));
    /// let position = Position { micros: 2_000_000, remainder: 0 };
    /// let before = Position { micros: 1_666_666, remainder: 2 };
    /// assert_eq!(pages.strategy().position_before(position, 1), before);
    /// assert_eq!(daily.strategy().position_before(position, 1), position);
    /// ```
    pub fn position_before(&self, position: Position, units: u64) -> Position {
        match self {
            Self::TokenBucket(bucket) => bucket.meter().position_before(position, units),
            Self::Gcra(gcra) => gcra.meter().position_before(position, units),
            Self::LeakyBucket(bucket) => bucket.meter().position_before(position, units),
            Self::FixedWindow(_) | Self::CalendarWindow(_) | Self::SlidingWindow(_) | Self::SlidingLog(_) => {
                position
            }
            Self::InFlight(_) => Position { remainder: position.remainder.saturating_sub(units), ..position },
        }
    }

    /// The first instant at which `state` decides like `None`, in microseconds since the epoch. A state of another strategy counts as expired.
    #[inline]
    pub fn expires_at(&self, state: &State) -> u64 {
        with_algorithm!(self, algorithm => {
            state_of(Some(state)).map_or(0, |inner| algorithm.expires_at(inner))
        })
    }

    /// The highest number of bytes by which a charge at `now` makes the heap memory of a state grow. For a store with a
    /// memory budget.
    ///
    /// Only the counts of a sliding window with several slots, the runs of a log and the permits of requests in flight are on the heap.
    /// Permits grow when they are created, when the limit was raised, and when they are charged beyond the limit. Slots grow only when
    /// they are created or belong to another strategy; a log grows only when its memory is full of runs that count.
    ///
    /// ```
    /// use portcullis::store::State;
    /// use portcullis::{Policy, Quota, Timestamp};
    ///
    /// let (bucket, log) = (Policy::gcra("a", Quota::per_second(1)), Policy::sliding_log("b", Quota::per_second(9)));
    /// let mut state = None;
    /// assert_eq!(bucket.strategy().growth(state.as_ref(), Timestamp::EPOCH), 0);
    /// let growth = log.strategy().growth(state.as_ref(), Timestamp::EPOCH);
    /// log.strategy().charge(&mut state, Timestamp::EPOCH, 9);
    /// assert_eq!(state.as_ref().map(State::heap_bytes), Some(growth));
    /// ```
    pub fn growth(&self, state: Option<&State>, now: Timestamp) -> usize {
        match self {
            Self::SlidingWindow(window) => window.growth(state_of(state)),
            Self::SlidingLog(log) => log.growth(state_of(state), now),
            Self::InFlight(limit) => limit.growth(state_of(state), now),
            Self::TokenBucket(_)
            | Self::Gcra(_)
            | Self::LeakyBucket(_)
            | Self::FixedWindow(_)
            | Self::CalendarWindow(_) => 0,
        }
    }

    /// Frees space for one charge at `now` in the memory that a log has; does not change other states. For a store that has
    /// no memory left for the [growth](Strategy::growth) of the log.
    ///
    /// Merges runs that lie close together into one with the stamp of its newest unit. So no unit expires earlier than it
    /// would have, and the limit is not exceeded. A unit may expire later, by at most four periods divided by the number of
    /// runs: a client may be denied for longer by that time.
    pub fn compact(&self, state: &mut Option<State>, now: Timestamp) {
        match self {
            Self::SlidingLog(log) => in_place(state, |inner| log.compact(inner, now)),
            Self::TokenBucket(_)
            | Self::Gcra(_)
            | Self::LeakyBucket(_)
            | Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::SlidingWindow(_)
            | Self::InFlight(_) => {}
        }
    }

    /// Whether the state belongs to this strategy and, for a sliding window, has slots of this length and number. If not, it
    /// decides like `None`.
    pub fn owns(&self, state: &State) -> bool {
        match self {
            Self::TokenBucket(_) | Self::Gcra(_) | Self::LeakyBucket(_) => matches!(state, State::Tat(_)),
            Self::FixedWindow(_) => matches!(state, State::Window(_)),
            Self::CalendarWindow(_) => matches!(state, State::CalendarCount(_)),
            Self::SlidingWindow(window) => state_of(Some(state)).is_some_and(|slots| window.owns(slots)),
            Self::SlidingLog(_) => matches!(state, State::Log(_)),
            Self::InFlight(_) => matches!(state, State::Permits(_)),
        }
    }

    /// Decides, and returns the states before and after as values. For tests and models; a store works in place.
    pub fn decide(&self, state: Option<&State>, now: Timestamp, cost: u64) -> Transition<State> {
        with_algorithm!(self, algorithm => algorithm.decide(state_of(state), now, cost).map(StateOf::into))
    }
}

/// With this value the largest log causes as much work as the largest sliding window: a decision may have one of them, but
/// not two.
const UNITS_PER_SLOT: u64 = 100;
/// The server reads each permit of a state, as a number.
const PERMITS_PER_SLOT: u64 = 10;

const fn work_of_log(log: &SlidingLog) -> u32 {
    let (limit, half) = (log.limit(), log.ceiling().div_ceil(2));
    slots_of_work(if limit > half { limit } else { half }, UNITS_PER_SLOT)
}

/// At most the work of the longest log, so nothing is truncated.
#[expect(clippy::cast_possible_truncation, reason = "a log has at most 100 000 units")]
const fn slots_of_work(units: u64, units_per_slot: u64) -> u32 {
    if units > crate::Quota::MAX_UNITS { 1 } else { units.div_ceil(units_per_slot) as u32 }
}

const fn fill_time(meter: &Meter) -> Duration {
    let full = meter.capacity();
    let micros = full.micros.saturating_add((full.remainder > 0) as u64);
    let Some(ticks) = micros.checked_next_multiple_of(meter.grain()) else { return Duration::MAX };
    Duration::from_micros(ticks)
}

/// Converts between [`State`] and the state of one algorithm.
trait StateOf: Sized {
    fn of(state: &State) -> Option<&Self>;
    fn from(state: State) -> Option<Self>;
    fn into(self) -> State;
}

macro_rules! impl_state_of {
    ($($state:ident),*) => {$(
        impl StateOf for $state {
            fn of(state: &State) -> Option<&Self> {
                if let State::$state(inner) = state { Some(inner) } else { None }
            }

            fn from(state: State) -> Option<Self> {
                if let State::$state(inner) = state { Some(inner) } else { None }
            }

            fn into(self) -> State {
                State::$state(self)
            }
        }
    )*};
}

impl_state_of!(Tat, Window, CalendarCount, Slots, Log, Permits);

/// Returns `None` for a state of another strategy. Each strategy has its own keys, so such a state occurs only if a store
/// mixes up its keys.
#[inline]
fn state_of<S: StateOf>(state: Option<&State>) -> Option<&S> {
    state.and_then(S::of)
}

#[inline]
fn in_place<S: StateOf, T>(state: &mut Option<State>, change: impl FnOnce(&mut Option<S>) -> T) -> T {
    let mut inner = state.take().and_then(S::from);
    let answer = change(&mut inner);
    *state = inner.map(S::into);
    answer
}

#[cfg(test)]
mod tests;
