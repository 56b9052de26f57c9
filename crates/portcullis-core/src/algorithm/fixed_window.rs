//! The fixed window: a count per window.

use core::num::NonZeroU32;
use core::time::Duration;

use super::debt::{Debt, impl_debt};
use super::{Algorithm, Evaluation, Figures, ForcedCharge, answer, modulo, sealed::Sealed, share};
use crate::charge::Position;
use crate::refund::Refund;
use crate::{Quota, QuotaError, Timestamp};

/// A count per window of one period.
///
/// Admits at most `limit` units per window, and up to twice that in a period that overlaps two windows. A client whose
/// requests of cost 1 are farther apart than `period / limit` is never denied.
///
/// Mirrors: `lua/window.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{FixedWindow, Strategy};
/// use portcullis::{Anchor, Quota, Timestamp};
///
/// let per_key = Strategy::from(FixedWindow::new(Quota::per_minute(5))?.anchored(Anchor::FirstRequest));
/// let now = Timestamp::from_micros(90_000_000);
/// let first = per_key.decide(None, now, 5).after;
/// assert!(!per_key.decide(first.as_ref(), Timestamp::from_micros(149_999_999), 1).admitted);
/// assert!(per_key.decide(first.as_ref(), Timestamp::from_micros(150_000_000), 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    period: u64,
    anchor: Anchor,
    debt: Debt,
}

/// When windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
// Exhaustive: a new anchor is a change of every store, which must not compile until it handles it.
pub enum Anchor {
    /// At the multiples of the period since the Unix epoch, the same for every key.
    #[default]
    Epoch,
    /// At a key's first charge after its previous window has ended.
    FirstRequest,
    /// At this instant and whole periods before and after it, the same for every key. For weeks that begin on a Monday, or
    /// days that begin at local midnight.
    Instant(Timestamp),
}

/// A window that has been charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct Window {
    /// The end of the window, in microseconds since the Unix epoch.
    pub end: u64,
    /// The length of the window, in microseconds. A window of another length belongs to another policy.
    pub length: u64,
    /// The charged units, at least 1.
    pub count: u64,
}

impl FixedWindow {
    /// Windows of one period, aligned to the Unix epoch.
    ///
    /// # Errors
    ///
    /// If the quota has a burst, which windows do not support.
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        if let Some(burst) = quota.explicit_burst() {
            return Err(QuotaError::BurstNotSupported { burst });
        }
        let (limit, period) = (quota.limit(), quota.period_micros());
        Ok(Self { limit, period, anchor: Anchor::Epoch, debt: Debt::DEFAULT })
    }

    /// Sets the start of the windows.
    #[must_use]
    pub const fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match share(self.limit, self.period, instances) {
            Ok((limit, period)) => Ok(Self { limit, period, debt: self.debt.share(instances), ..*self }),
            Err(error) => Err(error),
        }
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The most units that settlements leave in a window: the limit and the largest [debt](crate::Policy::allow_debt), by default twice
    /// the limit.
    pub const fn ceiling(&self) -> u64 {
        self.debt.beyond(self.limit)
    }

    /// The length of a window, in whole microseconds.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period)
    }

    /// When windows begin.
    pub const fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// The offset of the start of windows from the multiples of the period, in microseconds; `None` if each key has its own.
    #[inline]
    pub const fn phase(&self) -> Option<u64> {
        match self.anchor {
            Anchor::Epoch => Some(0),
            Anchor::FirstRequest => None,
            Anchor::Instant(instant) => Some(modulo(instant.as_micros(), self.period)),
        }
    }

    /// The end of the window that `now` is in.
    #[inline]
    const fn end(&self, now: u64) -> u64 {
        let next = now.saturating_add(self.period);
        match self.phase() {
            Some(phase) => next.saturating_sub(modulo(next.saturating_sub(phase), self.period)),
            None => next,
        }
    }

    /// The window at `now`, and whether a clock step had to be repaired.
    ///
    /// If the window has not begun yet, time is frozen at its start, for at most one period. If it is farther ahead, it moves
    /// to `now` with its count.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a decision calls it three times, and needs one division if it is inlined"
    )]
    fn current(&self, state: Option<&Window>, now: u64) -> (Option<Window>, bool) {
        let Some(window) = state.filter(|window| self.owns(window)) else { return (None, false) };
        let ahead = window.end.saturating_sub(now);
        if ahead == 0 {
            (None, false)
        } else if ahead > self.period.saturating_mul(2) {
            (Some(Window { end: self.end(now), ..*window }), true)
        } else {
            (Some(*window), false)
        }
    }

    /// Whether the window fits this policy: the quota of a key may change while its state exists.
    #[inline]
    fn owns(&self, window: &Window) -> bool {
        let aligned = match self.phase() {
            Some(phase) => modulo(window.end, self.period) == phase,
            None => true,
        };
        window.count > 0 && window.length == self.period && aligned
    }

    #[inline]
    fn holding(&self, window: Option<Window>, now: u64, count: u64) -> Option<Window> {
        let end = window.map_or_else(|| self.end(now), |window| window.end);
        (count > 0).then_some(Window { end, length: self.period, count })
    }
}

impl_debt!(FixedWindow, Quota::MAX_UNITS);

impl Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    type State = Window;

    #[inline]
    fn evaluate(&self, state: Option<&Window>, now: Timestamp, cost: u64) -> Evaluation {
        let (window, repair) = self.current(state, now.as_micros());
        let admitted = cost == 0 || count(window).saturating_add(cost) <= self.limit;
        Evaluation { admitted, repair }
    }

    #[inline]
    fn advance(&self, state: &mut Option<Window>, now: Timestamp) {
        (*state, _) = self.current(state.as_ref(), now.as_micros());
    }

    #[inline]
    fn charge(&self, state: &mut Option<Window>, now: Timestamp, units: u64) {
        let (window, _) = self.current(state.as_ref(), now.as_micros());
        *state = self.holding(window, now.as_micros(), count(window).saturating_add(units));
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn check(&self, state: &mut Option<Window>, now: Timestamp, cost: u64) -> (bool, bool) {
        let (window, repair) = self.current(state.as_ref(), now.as_micros());
        let held = count(window);
        let admitted = cost == 0 || held.saturating_add(cost) <= self.limit;
        let charges = admitted && cost > 0;
        if charges {
            *state = self.holding(window, now.as_micros(), held.saturating_add(cost));
        } else if repair {
            *state = window;
        }
        (admitted, charges || repair)
    }

    fn refund(&self, state: &mut Option<Window>, now: Timestamp, refund: Refund<'_>) -> bool {
        let (before, repair) = self.current(state.as_ref(), now.as_micros());
        let mut left = count(before);
        if let Some(Window { end, .. }) = before {
            let window = end.saturating_sub(self.period)..end;
            for run in refund.runs().filter(|run| window.contains(&run.position.micros)) {
                left = left.saturating_sub(run.units);
            }
        }
        let changed = repair || left != count(before);
        if changed {
            *state = self.holding(before, now.as_micros(), left);
        }
        changed
    }

    fn force_charge(&self, state: &mut Option<Window>, now: Timestamp, units: u64) -> ForcedCharge {
        let (before, repair) = self.current(state.as_ref(), now.as_micros());
        let held = count(before);
        let more = units.min(self.ceiling().saturating_sub(held));
        let changed = repair || more > 0;
        if changed {
            *state = self.holding(before, now.as_micros(), held.saturating_add(more));
        }
        ForcedCharge { charged: more, uncharged: units.saturating_sub(more), changed }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "figures that are returned through memory take longer to read than to compute"
    )]
    fn figures(&self, state: Option<&Window>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let (window, _) = self.current(state, now.as_micros());
        let remaining = self.limit.saturating_sub(count(window));
        let ends_after = window.map_or(0, |window| window.end.saturating_sub(now.as_micros()));
        let (answer, wait) = answer(admitted, cost, self.limit, || ends_after);
        Figures {
            limit: self.limit,
            remaining,
            reset_after: ends_after,
            next_after: ends_after,
            wait,
            answer,
        }
    }

    #[inline]
    fn position(&self, state: Option<&Window>, _: Timestamp) -> Position {
        Position::at(state.map_or(0, |window| window.end.saturating_sub(self.period)))
    }

    #[inline]
    fn expires_at(&self, state: &Window) -> u64 {
        state.end
    }
}

#[inline]
fn count(window: Option<Window>) -> u64 {
    window.map_or(0, |window| window.count)
}

#[cfg(test)]
mod tests;
