//! The closed set of algorithms.

use core::time::Duration;

use crate::{
    Algorithm, Evaluation, FixedWindow, ForcedCharge, Gcra, LeakyBucket, Log, Meter, Position, Refund,
    SlidingLog, SlidingWindow, Slots, Snapshot, Tat, Timestamp, TokenBucket, Transition, Window,
};

/// Which algorithm, with its parameters.
///
/// The enum is exhaustive on purpose: a new algorithm fails to compile in every store until the store handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Tokens that come back at a rate.
    TokenBucket(TokenBucket),
    /// Evenly spaced requests with a burst.
    Gcra(Gcra),
    /// A queue with constant outflow.
    LeakyBucket(LeakyBucket),
    /// A count per window.
    FixedWindow(FixedWindow),
    /// A count per slot, of which the oldest fades.
    SlidingWindow(SlidingWindow),
    /// Every unit with its time.
    SlidingLog(SlidingLog),
}

/// What is kept for one key under one strategy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The level of a meter.
    Tat(Tat),
    /// A window that has been charged.
    Window(Window),
    /// The slots of a sliding window.
    Slots(Slots),
    /// The units of a sliding log.
    Log(Log),
}

impl State {
    /// The bytes that the state has on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Tat(_) | Self::Window(_) => 0,
            Self::Slots(slots) => slots.heap_bytes(),
            Self::Log(log) => log.heap_bytes(),
        }
    }
}

/// Binds the algorithm in force to a name.
macro_rules! with_algorithm {
    ($strategy:expr, $algorithm:ident => $call:expr) => {
        match $strategy {
            Strategy::TokenBucket($algorithm) => $call,
            Strategy::Gcra($algorithm) => $call,
            Strategy::LeakyBucket($algorithm) => $call,
            Strategy::FixedWindow($algorithm) => $call,
            Strategy::SlidingWindow($algorithm) => $call,
            Strategy::SlidingLog($algorithm) => $call,
        }
    };
}

impl Strategy {
    /// A short name for keys, labels and files. Another strategy is another key.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::Gcra(_) => "gcra",
            Self::LeakyBucket(_) => "leaky_bucket",
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingWindow(_) => "sliding_window",
            Self::SlidingLog(_) => "sliding_log",
        }
    }

    /// The most units that can be admitted at one instant: the limit of windows and log, the burst of meters.
    pub const fn limit(&self) -> u32 {
        match self {
            Self::TokenBucket(bucket) => bucket.meter().burst(),
            Self::Gcra(gcra) => gcra.meter().burst(),
            Self::LeakyBucket(bucket) => bucket.meter().burst(),
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingWindow(window) => window.limit(),
            Self::SlidingLog(log) => log.limit(),
        }
    }

    /// The time in which [`limit`](Strategy::limit) units come back: the period of windows and log, the time in which an
    /// empty meter fills, rounded up to a microsecond. Where tokens come back at intervals, the intervals that it takes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::{Policy, Quota};
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
            Self::SlidingWindow(window) => window.period(),
            Self::SlidingLog(log) => log.period(),
        }
    }

    /// The work of a check for the server of a store, in slots of a sliding window, at least 1.
    ///
    /// | strategy | work |
    /// |---|---|
    /// | sliding window | its slots |
    /// | sliding log | one per 100 units of the limit, rounded up; a charge or refund writes up to the whole log |
    /// | any other | 1 |
    ///
    /// [`Checks::MAX_WORK`](crate::Checks::MAX_WORK) bounds the sum over all checks of a decision.
    ///
    /// ```
    /// use portcullis_core::{Policy, Quota};
    ///
    /// assert_eq!(Policy::gcra("burst", Quota::per_second(1_000)).strategy().work(), 1);
    /// assert_eq!(Policy::sliding_log("log", Quota::per_hour(2_000)).strategy().work(), 20);
    /// ```
    pub const fn work(&self) -> u32 {
        match self {
            Self::SlidingWindow(window) => window.slots(),
            Self::SlidingLog(log) => log.limit().div_ceil(UNITS_PER_SLOT),
            Self::TokenBucket(_) | Self::Gcra(_) | Self::LeakyBucket(_) | Self::FixedWindow(_) => 1,
        }
    }

    /// See [`Algorithm::evaluate`].
    pub fn evaluate(&self, state: Option<&State>, now: Timestamp, cost: u32) -> Evaluation {
        with_algorithm!(self, algorithm => algorithm.evaluate(own(state), now, cost))
    }

    /// See [`Algorithm::advance`].
    pub fn advance(&self, state: &mut Option<State>, now: Timestamp) {
        with_algorithm!(self, algorithm => in_place(state, |own| algorithm.advance(own, now)));
    }

    /// See [`Algorithm::charge`].
    pub fn charge(&self, state: &mut Option<State>, now: Timestamp, units: u32) {
        with_algorithm!(self, algorithm => in_place(state, |own| algorithm.charge(own, now, units)));
    }

    /// Does with the state what a decision for `cost` calls for: charges it, or only repairs it. Returns whether the
    /// state has changed, so that it has to be written.
    pub fn conclude(
        &self,
        state: &mut Option<State>,
        now: Timestamp,
        cost: u32,
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

    /// See [`Algorithm::refund`].
    pub fn refund(&self, state: &mut Option<State>, now: Timestamp, refund: Refund<'_>) -> bool {
        with_algorithm!(self, algorithm => in_place(state, |own| algorithm.refund(own, now, refund)))
    }

    /// See [`Algorithm::force_charge`].
    pub fn force_charge(&self, state: &mut Option<State>, now: Timestamp, units: u32) -> ForcedCharge {
        with_algorithm!(self, algorithm => in_place(state, |own| algorithm.force_charge(own, now, units)))
    }

    /// See [`Algorithm::snapshot`].
    pub fn snapshot(&self, state: Option<&State>, now: Timestamp, cost: u32, admitted: bool) -> Snapshot {
        with_algorithm!(self, algorithm => algorithm.snapshot(own(state), now, cost, admitted))
    }

    /// See [`Algorithm::position`].
    pub fn position(&self, state: Option<&State>, now: Timestamp) -> Position {
        with_algorithm!(self, algorithm => algorithm.position(own(state), now))
    }

    /// See [`Algorithm::expires_at`]. A state of another strategy has expired.
    pub fn expires_at(&self, state: &State) -> u64 {
        with_algorithm!(self, algorithm => own(Some(state)).map_or(0, |own| algorithm.expires_at(own)))
    }

    /// The bytes on the heap by which a charge at `now` makes a state grow, at most: for a store with a budget of memory.
    ///
    /// Only the slots of a sliding window and the runs of a log are on the heap. Slots grow only where they are made or
    /// are not of this strategy; a log where its memory is full of runs that count.
    ///
    /// ```
    /// use portcullis_core::{Policy, Quota, State, Timestamp};
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
            Self::SlidingWindow(window) => window.growth(own(state)),
            Self::SlidingLog(log) => log.growth(own(state), now),
            _ => 0,
        }
    }

    /// Makes room for one charge at `now` in the memory that a log has; does nothing to other states. For a store that has
    /// no memory left for what the log would [grow](Strategy::growth).
    ///
    /// Runs of a log that lie close together become one, with the stamp of the newest unit in it. So no unit leaves earlier
    /// than it would have, which admits nothing beyond the limit, and none leaves later than it would have by more than four
    /// periods divided by the number of runs: the caller may be denied for longer by as much.
    pub fn compact(&self, state: &mut Option<State>, now: Timestamp) {
        if let Self::SlidingLog(log) = self {
            in_place(state, |own| log.compact(own, now));
        }
    }

    /// Whether the state is of this strategy, and its slots of this length and number if it is a sliding window's: else
    /// it decides like none.
    pub fn owns(&self, state: &State) -> bool {
        match (self, state) {
            (Self::SlidingWindow(window), State::Slots(slots)) => window.owns(slots),
            (Self::TokenBucket(_) | Self::Gcra(_) | Self::LeakyBucket(_), State::Tat(_))
            | (Self::FixedWindow(_), State::Window(_))
            | (Self::SlidingLog(_), State::Log(_)) => true,
            _ => false,
        }
    }

    /// See [`Algorithm::decide`].
    pub fn decide(&self, state: Option<&State>, now: Timestamp, cost: u32) -> Transition<State> {
        with_algorithm!(self, algorithm => algorithm.decide(own(state), now, cost).map(StateOf::into))
    }
}

/// The largest log is as much work as the largest sliding window: either fits into a decision, two of them do not.
const UNITS_PER_SLOT: u32 = 100;

const fn fill_time(meter: &Meter) -> Duration {
    let full = meter.capacity();
    let micros = full.micros.saturating_add((full.remainder > 0) as u64);
    let Some(ticks) = micros.checked_next_multiple_of(meter.grain()) else { return Duration::MAX };
    Duration::from_micros(ticks)
}

/// The states of one kind of algorithm among all.
trait StateOf: Sized {
    fn of(state: &State) -> Option<&Self>;
    fn from(state: State) -> Option<Self>;
    fn into(self) -> State;
}

macro_rules! own {
    ($($state:ident),*) => {$(
        impl StateOf for $state {
            fn of(state: &State) -> Option<&Self> {
                if let State::$state(own) = state { Some(own) } else { None }
            }

            fn from(state: State) -> Option<Self> {
                if let State::$state(own) = state { Some(own) } else { None }
            }

            fn into(self) -> State {
                State::$state(self)
            }
        }
    )*};
}

own!(Tat, Window, Slots, Log);

/// A state of another strategy counts as none: it can only come from a store that mixed up its keys, and strategies have
/// keys of their own.
fn own<S: StateOf>(state: Option<&State>) -> Option<&S> {
    state.and_then(S::of)
}

fn in_place<S: StateOf, T>(state: &mut Option<State>, change: impl FnOnce(&mut Option<S>) -> T) -> T {
    let mut own = state.take().and_then(S::from);
    let answer = change(&mut own);
    *state = own.map(S::into);
    answer
}

#[cfg(test)]
mod tests;
