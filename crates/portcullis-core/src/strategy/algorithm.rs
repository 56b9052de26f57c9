//! A strategy as an algorithm, for what is generic over algorithms, and of one. Each function is that of the same name of the strategy.

use super::Strategy;
use crate::algorithm::{Algorithm, Evaluation, Figures, ForcedCharge, State, Transition, sealed::Sealed};
use crate::charge::Position;
use crate::refund::Refund;
use crate::{
    CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};

impl Sealed for Strategy {}

impl Algorithm for Strategy {
    type State = State;

    #[inline]
    fn evaluate(&self, state: Option<&State>, now: Timestamp, cost: u64) -> Evaluation {
        self.evaluate(state, now, cost)
    }

    fn advance(&self, state: &mut Option<State>, now: Timestamp) {
        self.advance(state, now);
    }

    #[inline]
    fn charge(&self, state: &mut Option<State>, now: Timestamp, units: u64) {
        self.charge(state, now, units);
    }

    fn refund(&self, state: &mut Option<State>, now: Timestamp, refund: Refund<'_>) -> bool {
        self.refund(state, now, refund)
    }

    fn force_charge(&self, state: &mut Option<State>, now: Timestamp, units: u64) -> ForcedCharge {
        self.force_charge(state, now, units)
    }

    #[inline]
    fn figures(&self, state: Option<&State>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        self.figures(state, now, cost, admitted)
    }

    #[inline]
    fn position(&self, state: Option<&State>, now: Timestamp) -> Position {
        self.position(state, now)
    }

    fn expires_at(&self, state: &State) -> u64 {
        self.expires_at(state)
    }

    fn decide(&self, state: Option<&State>, now: Timestamp, cost: u64) -> Transition<State> {
        self.decide(state, now, cost)
    }
}

macro_rules! impl_from_algorithm {
    ($($algorithm:ident),*) => {$(
        impl From<$algorithm> for Strategy {
            fn from(algorithm: $algorithm) -> Self {
                Self::$algorithm(algorithm)
            }
        }
    )*};
}

impl_from_algorithm! { TokenBucket, Gcra, LeakyBucket, FixedWindow, CalendarWindow, SlidingWindow, SlidingLog, InFlight }
