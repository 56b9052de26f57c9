//! The algorithms: pure functions of a state, an instant and a number of units.

pub(crate) mod calendar_window;
mod check_result;
#[cfg(test)]
mod checking;
pub(crate) mod debt;
pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod in_flight;
pub(crate) mod leaky_bucket;
pub(crate) mod meter;
pub(crate) mod sliding_log;
pub(crate) mod sliding_window;
pub(crate) mod snapshot;
mod state;
pub(crate) mod token_bucket;
#[cfg(test)]
mod waits;

use core::num::NonZeroU32;
use core::time::Duration;

use crate::charge::Position;
use crate::quota::MAX_MICROS;
use crate::refund::Refund;
use crate::{QuotaError, Timestamp};
use snapshot::Answer;

pub use calendar_window::CalendarCount;
pub use check_result::CheckResult;
pub use fixed_window::Window;
pub use in_flight::{Permit, Permits, PermitsView, RenewedPermits};
pub use meter::{Meter, Span, Tat};
pub use sliding_log::{Log, LogView};
pub use sliding_window::Slots;
pub use snapshot::{Figures, Snapshot};
pub use state::{DecodeStateError, State};

/// A rate limiting algorithm with its parameters.
///
/// All results depend only on the arguments. `None` is the state of a key that was never charged, and an expired state decides
/// exactly like `None`, so a store may drop expired states at any time.
///
/// A store [evaluates](Algorithm::evaluate) all checks of a request first. Only if all of them fit, it
/// [charges](Algorithm::charge) the states in place, so that a large state is never copied. A denial or a peek writes
/// nothing: a state that it finds expired may count again when the clock is set back. The exception is a state whose
/// evaluation requests [repair](Evaluation::repair): it is [advanced](Algorithm::advance) and written for any decision.
///
/// The trait is sealed: the variants of [`Strategy`](crate::Strategy) are a closed set.
///
/// ```
/// use portcullis_core::algorithm::Algorithm;
/// use portcullis_core::{FixedWindow, Quota, Timestamp};
///
/// let window = FixedWindow::new(Quota::per_minute(2))?;
/// let now = Timestamp::from_micros(90_000_000);
/// let mut state = None;
/// assert!(window.evaluate(state.as_ref(), now, 2).admitted);
/// window.charge(&mut state, now, 2);
///
/// let snapshot = window.snapshot(state.as_ref(), now, 2, true);
/// assert_eq!((snapshot.limit, snapshot.remaining), (2, 0));
/// assert_eq!(snapshot.reset_after.as_secs(), 30);
/// # Ok::<(), portcullis_core::QuotaError>(())
/// ```
pub trait Algorithm: sealed::Sealed {
    /// The state of one key.
    type State: Clone + Eq + core::fmt::Debug;

    /// Whether `cost` units fit at `now`, and whether the state needs repair. A cost of 0 is a peek, always admitted. A cost
    /// above the limit never fits, however large.
    fn evaluate(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> Evaluation;

    /// Brings a state to `now`: sets it to `None` if it has expired, and moves it if the clock has stepped.
    fn advance(&self, state: &mut Option<Self::State>, now: Timestamp);

    /// Charges `units` that were found to fit, to the state at `now`.
    fn charge(&self, state: &mut Option<Self::State>, now: Timestamp, units: u64);

    /// Evaluates a cost, then charges or repairs the state as the evaluation requires. Returns whether the cost is admitted, and whether
    /// the state is changed.
    // For the memory store alone: an algorithm may compute at once what the three need.
    #[doc(hidden)]
    #[inline]
    fn check(&self, state: &mut Option<Self::State>, now: Timestamp, cost: u64) -> (bool, bool) {
        let Evaluation { admitted, repair } = self.evaluate(state.as_ref(), now, cost);
        let charges = admitted && cost > 0;
        if charges {
            self.charge(state, now, cost);
        } else if repair {
            self.advance(state, now);
        }
        (admitted, charges || repair)
    }

    /// Frees the units of `refund`, as far as the state still holds them. Returns whether the state has changed.
    ///
    /// A rate-based algorithm frees per run at most its units, and at most the part of it that lies after now, where time
    /// passes in steps for refills at intervals: the level sinks by no more than the charge still raises it.
    fn refund(&self, state: &mut Option<Self::State>, now: Timestamp, refund: Refund<'_>) -> bool;

    /// Charges `units` whether they fit or not. The debt is at most the [largest](crate::Policy::allow_debt) beyond the full state, by
    /// default one burst (limit).
    fn force_charge(&self, state: &mut Option<Self::State>, now: Timestamp, units: u64) -> ForcedCharge;

    /// The figures of a decision, computed from the `state` after it.
    #[inline]
    fn snapshot(&self, state: Option<&Self::State>, now: Timestamp, cost: u64, admitted: bool) -> Snapshot {
        self.figures(state, now, cost, admitted).into()
    }

    /// Like [`snapshot`](Self::snapshot), but in the form in which the figures are computed.
    // For the memory store alone, which makes a decision of them without conversions.
    #[doc(hidden)]
    fn figures(&self, state: Option<&Self::State>, now: Timestamp, cost: u64, admitted: bool) -> Figures;

    /// The position of the charge that led to `state` at `now`, for a refund.
    fn position(&self, state: Option<&Self::State>, now: Timestamp) -> Position;

    /// The first instant at which `state` decides like `None`, in microseconds since the epoch.
    fn expires_at(&self, state: &Self::State) -> u64;

    /// Decides, and returns the states before and after as values. For tests and models; a store works in place.
    fn decide(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> Transition<Self::State> {
        let Evaluation { admitted, repair } = self.evaluate(state, now, cost);
        let mut before = state.cloned();
        self.advance(&mut before, now);
        let mut after = before.clone();
        if admitted && cost > 0 {
            self.charge(&mut after, now, cost);
        }
        Transition { admitted, before, after, repaired: repair }
    }
}

/// The result of evaluating a cost, before the state is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: its two answers are all that the decision protocol needs.
pub struct Evaluation {
    /// Whether the cost fits.
    pub admitted: bool,
    /// Whether the clock has stepped, so that the state has to be moved and written for any decision.
    pub repair: bool,
}

/// The effect of a decision on a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: a pair of an answer and a state.
pub struct Transition<S> {
    /// Whether the cost fits.
    pub admitted: bool,
    /// The state before the charge, at this instant; `None` if it has expired.
    pub before: Option<S>,
    /// The state after the charge; the same as `before` if nothing is charged.
    pub after: Option<S>,
    /// Whether `before` had to be moved because the clock had stepped.
    pub repaired: bool,
}

impl<S> Transition<S> {
    pub(crate) fn map<T>(self, convert: impl Fn(S) -> T) -> Transition<T> {
        let Self { admitted, before, after, repaired } = self;
        Transition { admitted, before: before.map(&convert), after: after.map(&convert), repaired }
    }
}

/// The effect of a charge that is made whether it fits or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
// Exhaustive: the protocol needs no more.
pub struct ForcedCharge {
    /// Units that were charged in full.
    pub charged: u64,
    /// Units that were not charged because the debt is bounded. If the bound is in the middle of a unit, that unit counts
    /// neither here nor as charged.
    pub uncharged: u64,
    /// Whether the state has changed.
    pub changed: bool,
}

/// The answer to a cost, and how long to wait in microseconds; `wait` is called only if a cost that was not admitted can fit at all.
#[inline]
pub(crate) fn answer(admitted: bool, cost: u64, most: u64, wait: impl FnOnce() -> u64) -> (Answer, u64) {
    match (admitted, cost > most) {
        (true, _) => (Answer::Allow, 0),
        (false, true) => (Answer::RetryNever, 0),
        (false, false) => (Answer::RetryAfter, wait()),
    }
}

/// The limit and the period for one of `instances` that share a window: `limit / n` in the same period or, if that is zero,
/// one unit per several periods, as many as keep all instances together within the limit.
#[expect(clippy::arithmetic_side_effects, reason = "the limit is not zero")]
pub(crate) const fn share(limit: u64, period: u64, instances: NonZeroU32) -> Result<(u64, u64), QuotaError> {
    let count = instances.get() as u64;
    let share = limit / count;
    if share > 0 {
        return Ok((share, period));
    }
    let periods = count.div_ceil(limit);
    let whole = Duration::from_micros(period.saturating_mul(periods));
    if whole.as_micros() > MAX_MICROS as u128 {
        return Err(QuotaError::PeriodTooLong(whole));
    }
    Ok((1, period * periods))
}

/// `value` modulo `step`, which is a period or a part of one and never zero.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "a period is never zero")]
pub(crate) const fn modulo(value: u64, step: u64) -> u64 {
    value % step
}

pub(crate) mod sealed {
    #[expect(unnameable_types, reason = "other crates cannot implement an algorithm")]
    pub trait Sealed {}
}
