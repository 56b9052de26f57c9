//! The closed set of algorithms.

use core::time::Duration;

use crate::{Algorithm, FixedWindow, Forced, Gcra, Report, Tat, Timestamp, Transition, Window};

/// Which algorithm, with its parameters.
///
/// The enum is exhaustive on purpose: a new algorithm fails to compile in every store until the store handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Evenly spaced requests with a burst.
    Gcra(Gcra),
    /// A count per window.
    FixedWindow(FixedWindow),
}

/// What is kept for one key under one strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The level of a meter.
    Tat(Tat),
    /// A window that has been charged.
    Window(Window),
}

/// Calls a method of the algorithm in force with the state that is its own. A state of another strategy counts as none:
/// it can only come from a store that mixed up its keys, and strategies have keys of their own.
macro_rules! with_algorithm {
    ($strategy:expr, $state:expr, |$algorithm:ident, $own:ident| $call:expr, $into:expr) => {
        match $strategy {
            Strategy::Gcra($algorithm) => {
                let $own = $state.and_then(State::as_tat);
                $into($call, State::Tat)
            }
            Strategy::FixedWindow($algorithm) => {
                let $own = $state.and_then(State::as_window);
                $into($call, State::Window)
            }
        }
    };
}

impl Strategy {
    /// A short name for keys, labels and files. Another strategy is another key.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::Gcra(_) => "gcra",
            Self::FixedWindow(_) => "fixed_window",
        }
    }

    /// The most units that can be admitted at one instant: the limit of windows, the burst of meters.
    pub const fn limit(&self) -> u32 {
        match self {
            Self::Gcra(gcra) => gcra.meter().burst(),
            Self::FixedWindow(window) => window.limit(),
        }
    }

    /// The time in which [`limit`](Strategy::limit) units come back: the period of windows, the time in which an empty
    /// meter fills, rounded up to a microsecond.
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
            Self::Gcra(gcra) => {
                let full = gcra.meter().capacity();
                Duration::from_micros(full.micros.saturating_add((full.remainder > 0) as u64))
            }
            Self::FixedWindow(window) => window.period(),
        }
    }

    /// See [`Algorithm::decide`].
    pub fn decide(&self, state: Option<&State>, now: Timestamp, cost: u32) -> Transition<State> {
        with_algorithm!(self, state, |algorithm, own| algorithm.decide(own, now, cost), Transition::map)
    }

    /// See [`Algorithm::report`].
    pub fn report(&self, state: Option<&State>, now: Timestamp, cost: u32, admitted: bool) -> Report {
        with_algorithm!(self, state, |algorithm, own| algorithm.report(own, now, cost, admitted), keep)
    }

    /// See [`Algorithm::refund`].
    pub fn refund(
        &self,
        state: Option<&State>,
        now: Timestamp,
        charged_at: Timestamp,
        cost: u32,
    ) -> Transition<State> {
        with_algorithm!(
            self,
            state,
            |algorithm, own| algorithm.refund(own, now, charged_at, cost),
            Transition::map
        )
    }

    /// See [`Algorithm::force`].
    pub fn force(&self, state: Option<&State>, now: Timestamp, cost: u32) -> Forced<State> {
        with_algorithm!(self, state, |algorithm, own| algorithm.force(own, now, cost), Forced::map)
    }

    /// See [`Algorithm::charged_at`].
    pub fn charged_at(&self, state: Option<&State>, now: Timestamp) -> Timestamp {
        with_algorithm!(self, state, |algorithm, own| algorithm.charged_at(own, now), keep)
    }

    /// See [`Algorithm::expires_at`]. A state of another strategy has expired.
    pub fn expires_at(&self, state: &State) -> u64 {
        with_algorithm!(
            self,
            Some(state),
            |algorithm, own| own.map_or(0, |own| algorithm.expires_at(own)),
            keep
        )
    }
}

impl State {
    const fn as_tat(&self) -> Option<&Tat> {
        if let Self::Tat(tat) = self { Some(tat) } else { None }
    }

    const fn as_window(&self) -> Option<&Window> {
        if let Self::Window(window) = self { Some(window) } else { None }
    }
}

/// For answers that carry no state.
fn keep<T, S>(answer: T, _: fn(S) -> State) -> T {
    answer
}
