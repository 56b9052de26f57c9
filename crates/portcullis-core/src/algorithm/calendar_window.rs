//! Calendar windows: a count per month or week of a calendar.

mod table;

use core::num::NonZeroU32;

use super::debt::{Debt, impl_debt};
use super::{Algorithm, Evaluation, Figures, ForcedCharge, answer, sealed::Sealed};
use crate::charge::Position;
use crate::quota::UNLIMITED_UNITS;
use crate::refund::Refund;
use crate::{Quota, QuotaError, Timestamp};

pub use table::{WindowTable, WindowTableError};

/// A count per window of a calendar, such as a month in a time zone: a fixed window whose windows differ in length.
///
/// Admits at most `limit` units per window, and up to twice that within a few seconds at the turn of two windows.
///
/// A state counts by the [number](WindowTable::number_at) of its window. A process whose [table](WindowTable) still is in the
/// window before, because its time zone data is older or its clock is slow, charges the later window that others have begun, and
/// never resets it.
///
/// Mirrors: `lua/window.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::Timestamp;
/// use portcullis::store::{CalendarWindow, Strategy, WindowTable};
///
/// /// January, February and March 2026 in UTC.
/// static STARTS: [Timestamp; 3] = [
///     Timestamp::from_micros(1_767_225_600_000_000),
///     Timestamp::from_micros(1_769_904_000_000_000),
///     Timestamp::from_micros(1_772_323_200_000_000),
/// ];
/// static MONTHS: WindowTable = match WindowTable::new("months in UTC", 673, &STARTS) {
///     Ok(table) => table,
///     Err(_) => panic!("the starts ascend"),
/// };
///
/// let per_key = Strategy::from(CalendarWindow::new(1_000, &MONTHS)?);
/// let new_years_day = STARTS[0];
/// let spent = per_key.decide(None, new_years_day, 1_000).after;
/// let denied = per_key.snapshot(spent.as_ref(), new_years_day, 1, false);
/// assert_eq!(denied.reset_after.as_secs(), 31 * 86_400);
/// assert!(per_key.decide(spent.as_ref(), STARTS[1], 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CalendarWindow {
    limit: u64,
    table: &'static WindowTable,
    debt: Debt,
}

/// A window of a calendar that has been charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct CalendarCount {
    /// The [number](WindowTable::number_at) of the window.
    pub window: u64,
    /// The end of the window, in microseconds since the Unix epoch: the latest that processes with different time zone data have
    /// written.
    pub end: u64,
    /// The charged units, at least 1.
    pub count: u64,
}

impl CalendarWindow {
    /// `limit` units in each window of a table.
    ///
    /// # Errors
    ///
    /// If `limit` is zero or more than [`Quota::MAX_UNITS`].
    pub const fn new(limit: u64, table: &'static WindowTable) -> Result<Self, QuotaError> {
        if limit > UNLIMITED_UNITS {
            return Err(QuotaError::TooManyUnits { units: limit });
        }
        Ok(Self { limit, table, debt: Debt::DEFAULT })
    }

    /// The windows differ in length, so several of them cannot be joined to one with a whole unit.
    #[expect(clippy::arithmetic_side_effects, reason = "instances are never zero")]
    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match self.limit / instances.get() as u64 {
            0 => Err(QuotaError::ShareBelowOne { limit: self.limit }),
            limit => Ok(Self { limit, debt: self.debt.share(instances), ..*self }),
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

    /// The windows.
    pub const fn table(&self) -> &'static WindowTable {
        self.table
    }

    /// The window at `now`, and whether it has to be written for any decision.
    ///
    /// A window that begins next is kept: time is frozen at its start. If it is farther ahead, it moves to `now` with its count. The
    /// present window gets the end of this table if that is later, so that no other process drops it too early.
    #[inline]
    fn current(&self, state: Option<&CalendarCount>, now: Timestamp) -> (Option<CalendarCount>, bool) {
        let is_live = |held: &&CalendarCount| held.count > 0 && held.end > now.as_micros();
        let Some(held) = state.filter(is_live) else { return (None, false) };
        let number = self.table.number_at(now);
        if held.window < number {
            return (None, false);
        }
        if held.window == number.saturating_add(1) {
            return (Some(*held), false);
        }
        let end = if held.window == number { held.end.max(self.end(number)) } else { self.end(number) };
        let current = CalendarCount { window: number, end, ..*held };
        (Some(current), current != *held)
    }

    #[inline]
    fn holding(&self, held: Option<CalendarCount>, now: Timestamp, count: u64) -> Option<CalendarCount> {
        let begun = || {
            let window = self.table.number_at(now);
            CalendarCount { window, end: self.end(window), count }
        };
        (count > 0).then(|| CalendarCount { count, ..held.unwrap_or_else(begun) })
    }

    /// The end of a window. The window after the last start does not end: it counts at the last instant, too.
    #[inline]
    fn end(&self, number: u64) -> u64 {
        let end = self.table.end_of(number);
        end.as_micros().saturating_add((end == Timestamp::MAX).into())
    }
}

impl_debt!(CalendarWindow, Quota::MAX_UNITS);

impl Sealed for CalendarWindow {}

impl Algorithm for CalendarWindow {
    type State = CalendarCount;

    #[inline]
    fn evaluate(&self, state: Option<&CalendarCount>, now: Timestamp, cost: u64) -> Evaluation {
        let (held, repair) = self.current(state, now);
        let admitted = cost == 0 || count(held).saturating_add(cost) <= self.limit;
        Evaluation { admitted, repair }
    }

    #[inline]
    fn advance(&self, state: &mut Option<CalendarCount>, now: Timestamp) {
        (*state, _) = self.current(state.as_ref(), now);
    }

    #[inline]
    fn charge(&self, state: &mut Option<CalendarCount>, now: Timestamp, units: u64) {
        let (held, _) = self.current(state.as_ref(), now);
        *state = self.holding(held, now, count(held).saturating_add(units));
    }

    fn refund(&self, state: &mut Option<CalendarCount>, now: Timestamp, refund: Refund<'_>) -> bool {
        let (before, repair) = self.current(state.as_ref(), now);
        let mut left = count(before);
        if let Some(CalendarCount { window, .. }) = before {
            let charged = |micros| self.table.number_at(Timestamp::from_micros(micros));
            for run in refund.runs().filter(|run| charged(run.position.micros) == window) {
                left = left.saturating_sub(run.units);
            }
        }
        let changed = repair || left != count(before);
        if changed {
            *state = self.holding(before, now, left);
        }
        changed
    }

    fn force_charge(&self, state: &mut Option<CalendarCount>, now: Timestamp, units: u64) -> ForcedCharge {
        let (before, repair) = self.current(state.as_ref(), now);
        let held = count(before);
        let more = units.min(self.ceiling().saturating_sub(held));
        let changed = repair || more > 0;
        if changed {
            *state = self.holding(before, now, held.saturating_add(more));
        }
        ForcedCharge { charged: more, uncharged: units.saturating_sub(more), changed }
    }

    /// A window ends where it does in this table, even if its end is later in that of another process.
    #[inline]
    fn figures(&self, state: Option<&CalendarCount>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let (held, _) = self.current(state, now);
        let remaining = self.limit.saturating_sub(count(held));
        let ends_after =
            held.map_or(0, |held| held.end.min(self.end(held.window)).saturating_sub(now.as_micros()));
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
    fn position(&self, state: Option<&CalendarCount>, _: Timestamp) -> Position {
        Position::at(state.map_or(0, |held| self.table.window(held.window).start.as_micros()))
    }

    #[inline]
    fn expires_at(&self, state: &CalendarCount) -> u64 {
        state.end
    }
}

#[inline]
fn count(held: Option<CalendarCount>) -> u64 {
    held.map_or(0, |held| held.count)
}

#[cfg(test)]
mod tests;
