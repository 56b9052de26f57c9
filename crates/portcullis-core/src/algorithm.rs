//! What every algorithm is: a pure function from a state, an instant and a cost to a transition.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod meter;

use core::time::Duration;

use crate::{Retry, Timestamp};

/// A limiting algorithm with its parameters.
///
/// Every method is pure. `None` is the state of a key that was never charged, and an expired state decides exactly
/// like `None`; that is why a store may drop expired states whenever it likes.
///
/// The trait is sealed: a [`Strategy`](crate::Strategy) is a closed set.
///
/// ```
/// use portcullis_core::{Algorithm, FixedWindow, Quota, Timestamp};
///
/// let window = FixedWindow::new(Quota::per_minute(2))?;
/// let now = Timestamp::from_micros(90_000_000);
/// let transition = window.decide(None, now, 2);
/// assert!(transition.admitted);
///
/// let report = window.report(transition.after.as_ref(), now, 2, transition.admitted);
/// assert_eq!((report.limit, report.remaining), (2, 0));
/// assert_eq!(report.reset_after.as_secs(), 30);
/// # Ok::<(), portcullis_core::QuotaError>(())
/// ```
pub trait Algorithm: sealed::Sealed {
    /// What is kept per key.
    type State: Copy + Eq + core::fmt::Debug;

    /// Decides whether `cost` units fit at `now`, and what the state becomes if they are charged.
    ///
    /// A cost of 0 is a peek, always admitted.
    fn decide(&self, state: Option<&Self::State>, now: Timestamp, cost: u32) -> Transition<Self::State>;

    /// Everything a decision says, computed from the `state` as it stands after the decision.
    fn report(&self, state: Option<&Self::State>, now: Timestamp, cost: u32, admitted: bool) -> Report;

    /// Takes back `cost` units that were charged at `charged_at`, as far as the state still holds them.
    fn refund(
        &self,
        state: Option<&Self::State>,
        now: Timestamp,
        charged_at: Timestamp,
        cost: u32,
    ) -> Transition<Self::State>;

    /// Charges `cost` units whether they fit or not. The debt ends at one burst (limit) beyond the full state.
    fn force(&self, state: Option<&Self::State>, now: Timestamp, cost: u32) -> Forced<Self::State>;

    /// The instant to name when a charge that led to `state` at `now` is to be taken back.
    fn charged_at(&self, state: Option<&Self::State>, now: Timestamp) -> Timestamp;

    /// The first instant at which `state` decides like `None`, in microseconds since the epoch.
    fn expires_at(&self, state: &Self::State) -> u64;
}

/// What a decision does to a state.
///
/// [`stands`](Transition::stands) says what a store has to write. It writes nothing else: what a denial or a peek has
/// seen expire may count again when the clock is set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition<S> {
    /// Whether the cost fits.
    pub admitted: bool,
    /// The state before the charge, as it counts at this instant; `None` once it has expired.
    pub before: Option<S>,
    /// The state after the charge; the same as `before` if nothing is charged.
    pub after: Option<S>,
    /// Whether `before` had to be moved because the clock had stepped.
    pub repaired: bool,
}

/// What a charge that asks nobody does to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced<S> {
    /// The states before and after; always admitted.
    pub transition: Transition<S>,
    /// Units that were not charged because the debt has an end.
    pub uncharged: u32,
}

/// The figures of a decision under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The most that `remaining` can be.
    pub limit: u32,
    /// Units that would be admitted right now.
    pub remaining: u32,
    /// The smallest wait after which the state decides like none.
    pub reset_after: Duration,
    /// The wait until `remaining` grows; zero when it is at the limit.
    pub next_after: Duration,
    /// When to try again, for a cost that was not admitted.
    pub retry: Option<Retry>,
    /// How long an admitted request waits before it is let through.
    pub delay: Duration,
}

impl<S: Copy + Eq> Transition<S> {
    /// The state as it stands if the charge is made or is not, and whether a store has to write it: because it differs
    /// from the state before, or had to be repaired.
    pub fn stands(&self, charge: bool) -> (Option<S>, bool) {
        let state = if charge { self.after } else { self.before };
        (state, self.repaired || state != self.before)
    }
}

impl<S> Transition<S> {
    pub(crate) fn map<T>(self, convert: impl Fn(S) -> T) -> Transition<T> {
        Transition {
            admitted: self.admitted,
            before: self.before.map(&convert),
            after: self.after.map(&convert),
            repaired: self.repaired,
        }
    }
}

impl<S> Forced<S> {
    pub(crate) fn map<T>(self, convert: impl Fn(S) -> T) -> Forced<T> {
        Forced { transition: self.transition.map(convert), uncharged: self.uncharged }
    }
}

pub(crate) mod sealed {
    #[expect(unnameable_types, reason = "nobody outside may implement an algorithm")]
    pub trait Sealed {}
}
