//! The sliding window counter: a count per slot, the oldest weighted by its overlap.

mod slots;

use core::iter::repeat_n;
use core::num::NonZeroU32;
use core::time::Duration;

use slots::SlotsAt;

pub use slots::Slots;

use super::debt::{Debt, impl_debt};
use super::{Algorithm, Evaluation, Figures, ForcedCharge, answer, modulo, sealed::Sealed, share};
use crate::charge::Position;
use crate::refund::Refund;
use crate::{Quota, QuotaError, Timestamp};

/// A sliding window counter: the period is divided into slots, each with a count, and the oldest count is weighted by its
/// overlap with the window, rounded down.
///
/// With one slot it is the two-counter estimate: the count of this period, and the count of the previous one weighted by its
/// overlap. More slots follow the traffic more closely and use more memory.
///
/// Admits at most `limit` units in any `period * (slots - 1) / slots`, and at worst twice the limit in a period. A client
/// whose requests of cost 1 are farther apart than `period / limit` is never denied.
///
/// Mirrors: `lua/sliding_window.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{SlidingWindow, Strategy};
/// use portcullis::{Quota, Timestamp};
///
/// let window = Strategy::from(SlidingWindow::new(Quota::per_minute(7))?);
/// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
/// let previous = window.decide(None, at(30), 5).after;
/// let current = window.decide(previous.as_ref(), at(61), 2).after;
/// // 30 % into the minute: 2 now and 70 % of 5, rounded down.
/// assert_eq!(window.snapshot(current.as_ref(), at(78), 0, true).remaining, 7 - 2 - 3);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    limit: u64,
    period: u64,
    slots: u32,
    /// The length of a slot, kept because a decision would divide many times.
    width: u64,
    debt: Debt,
}

impl SlidingWindow {
    /// The highest limit: 2^32 - 1. The share of the oldest slot is the quotient of a product, and a store whose numbers are
    /// doubles computes it from parts that are exact only for counts up to four times this.
    pub const MAX_LIMIT: u64 = 4_294_967_295;

    /// The highest number of slots in a window.
    pub const MAX_SLOTS: u32 = 1_000;

    /// A window with one slot: the estimate from two counters.
    ///
    /// # Errors
    ///
    /// If the quota has a burst, which windows do not support, or if the limit exceeds [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::with_slots(quota, 1)
    }

    /// A window with `slots` slots, aligned to the Unix epoch.
    ///
    /// # Errors
    ///
    /// If the quota has a burst, if the limit exceeds [`MAX_LIMIT`](Self::MAX_LIMIT), or if `slots` is zero, more than
    /// [`MAX_SLOTS`](Self::MAX_SLOTS) or does not divide the period into whole microseconds.
    pub const fn with_slots(quota: Quota, slots: u32) -> Result<Self, QuotaError> {
        if let Some(burst) = quota.explicit_burst() {
            return Err(QuotaError::BurstNotSupported { burst });
        }
        if quota.limit() > Self::MAX_LIMIT && !quota.is_unlimited() {
            return Err(QuotaError::WindowTooLarge { limit: quota.limit() });
        }
        let period = quota.period_micros();
        if slots == 0 || slots > Self::MAX_SLOTS || !period.is_multiple_of(slots as u64) {
            return Err(QuotaError::UnevenSlots { slots, period: quota.period() });
        }
        let width = width(period, slots);
        Ok(Self { limit: quota.limit(), period, slots, width, debt: Debt::DEFAULT })
    }

    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match share(self.limit, self.period, instances) {
            Ok((limit, period)) => {
                let (width, debt) = (width(period, self.slots), self.debt.share(instances));
                Ok(Self { limit, period, slots: self.slots, width, debt })
            }
            Err(error) => Err(error),
        }
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The most units that settlements leave in a window: the limit and the largest [debt](crate::Policy::allow_debt), by default twice
    /// the limit.
    pub const fn ceiling(&self) -> u64 {
        self.debt.beyond(self.limit)
    }

    /// The length of the window, whole microseconds.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period)
    }

    /// The number of slots in the period, from 1 to [`MAX_SLOTS`](Self::MAX_SLOTS).
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// The length of a slot, whole microseconds.
    pub const fn slot(&self) -> Duration {
        Duration::from_micros(self.width())
    }

    const fn width(&self) -> u64 {
        self.width
    }

    /// The end of the slot that `now` is in.
    const fn end(&self, now: u64) -> u64 {
        now.saturating_sub(modulo(now, self.width())).saturating_add(self.width())
    }

    /// The number of bytes by which a charge makes the heap memory of the slots grow.
    pub(crate) fn growth(&self, slots: Option<&Slots>) -> usize {
        match slots {
            Some(slots) if self.owns(slots) => 0,
            _ => slots::bytes_of(self.count_len()).saturating_sub(slots.map_or(0, Slots::heap_bytes)),
        }
    }

    /// Whether the slots fit this window: the quota of a key may change while its state exists.
    pub(crate) fn owns(&self, slots: &Slots) -> bool {
        let aligned = slots.end() == self.end(slots.end().saturating_sub(1));
        self.has_slots_like(slots) && aligned
    }

    /// Whether the slots have the length and the number of those of this window.
    fn has_slots_like(&self, slots: &Slots) -> bool {
        slots.width() == self.width() && slots.counts().len() == self.count_len()
    }

    /// The number of counts: one per slot, and one for the slot that leaves the window.
    const fn count_len(&self) -> usize {
        (self.slots as usize).saturating_add(1)
    }

    /// The slots at `now`, and whether they have to be moved because the clock was set back.
    ///
    /// If the newest slot has not begun yet, time is frozen at its start, for at most one period. If it is farther ahead, it
    /// becomes the slot of `now`.
    fn slots_at<'s>(&self, state: Option<&'s Slots>, now: u64) -> Option<(SlotsAt<'s>, bool)> {
        let slots = state.filter(|slots| self.owns(slots))?;
        let begin = slots.begin();
        let stepped = begin.saturating_sub(now) > self.period;
        let at = if stepped { slots.at(self.end(now), now) } else { slots.at(slots.end(), now.max(begin)) };
        (at.used() > 0).then_some((at, stepped))
    }

    fn used(&self, state: Option<&Slots>, now: u64) -> (u64, bool) {
        self.slots_at(state, now).map_or((0, false), |(at, stepped)| (at.used(), stepped))
    }

    fn add(&self, state: &mut Option<Slots>, now: Timestamp, units: u64) {
        let now = now.as_micros();
        let target = self.slots_at(state.as_ref(), now).map(|(at, _)| (at.passed(), at.end()));
        // Expired slots are reused: their memory has the right size.
        let (passed, end) = target.unwrap_or((self.count_len(), self.end(now)));
        match state.as_mut().filter(|slots| self.owns(slots)) {
            Some(slots) => slots.shift(passed, end),
            None => *state = Some(Slots::new(end, self.width(), repeat_n(0, self.count_len()))),
        }
        if let Some(slots) = state {
            slots.charge_newest(units);
        }
    }

    fn figures_at(&self, at: Option<&SlotsAt<'_>>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let limit = self.limit;
        let used = at.map_or(0, SlotsAt::used);
        let until = |most: u64| at.map_or(0, |at| at.first_at_most(most)).saturating_sub(now.as_micros());
        let next_after = used.min(limit).checked_sub(1).map_or(0, until);
        let (answer, wait) = answer(admitted, cost, limit, || until(limit.saturating_sub(cost)));
        Figures {
            limit,
            remaining: limit.saturating_sub(used),
            reset_after: until(0),
            next_after,
            wait,
            answer,
        }
    }

    /// Evaluates a check, charges it if it fits, and reports: the same as the methods of [`Algorithm`] one after the other,
    /// which divide many times. With the figures, the position and, if the slots were charged, the instant at which they expire, in
    /// microseconds.
    ///
    /// The slots are those of a sliding window, which always end at a multiple of their length.
    ///
    /// Returns `None` and changes nothing if the slots are not those of this window, if they have to be moved because the
    /// clock was set back, or if none of their units counts.
    // For the memory store alone.
    #[doc(hidden)]
    pub fn check_in_place(
        &self,
        slots: &mut Slots,
        now: Timestamp,
        cost: u64,
    ) -> Option<(Figures, Position, Option<u64>)> {
        let (begin, micros) = (slots.begin(), now.as_micros());
        if !self.has_slots_like(slots) || begin.saturating_sub(micros) > self.period {
            return None;
        }
        // Before the newest slot has begun, time is frozen at its start.
        let time = micros.max(begin);
        let before = slots.at(slots.end(), time);
        let used = before.used();
        if used == 0 {
            return None;
        }
        let admitted = cost == 0 || used.saturating_add(cost) <= self.limit;
        if !admitted || cost == 0 {
            let figures = self.figures_at(Some(&before), now, cost, admitted);
            return Some((figures, Position::at(begin), None));
        }
        let (passed, end) = (before.passed(), before.end());
        slots.shift(passed, end);
        slots.charge_newest(cost);
        let after = slots.charged_at(time, used.saturating_add(cost));
        let figures = self.figures_at(Some(&after), now, cost, admitted);
        // From then on no unit counts.
        let expires_at = micros.saturating_add(figures.reset_after);
        Some((figures, Position::at(slots.begin()), Some(expires_at)))
    }
}

impl_debt!(SlidingWindow, SlidingWindow::MAX_LIMIT);

impl Sealed for SlidingWindow {}

impl Algorithm for SlidingWindow {
    type State = Slots;

    fn evaluate(&self, state: Option<&Slots>, now: Timestamp, cost: u64) -> Evaluation {
        let (used, repair) = self.used(state, now.as_micros());
        let admitted = cost == 0 || used.saturating_add(cost) <= self.limit;
        Evaluation { admitted, repair }
    }

    fn advance(&self, state: &mut Option<Slots>, now: Timestamp) {
        let target = self.slots_at(state.as_ref(), now.as_micros()).map(|(at, _)| (at.passed(), at.end()));
        match (target, state.as_mut()) {
            (Some((passed, end)), Some(slots)) => slots.shift(passed, end),
            _ => *state = None,
        }
    }

    fn charge(&self, state: &mut Option<Slots>, now: Timestamp, units: u64) {
        self.add(state, now, units);
    }

    fn refund(&self, state: &mut Option<Slots>, now: Timestamp, refund: Refund<'_>) -> bool {
        let mut changed = self.slots_at(state.as_ref(), now.as_micros()).is_some_and(|(_, stepped)| stepped);
        for run in refund.runs() {
            let Some((at, _)) = self.slots_at(state.as_ref(), now.as_micros()) else { break };
            let held = at.index_of(self.end(run.position.micros)).filter(|index| at.count(*index) > 0);
            let Some(index) = held else { continue };
            changed = true;
            self.advance(state, now);
            if let Some(count) = state.as_mut().and_then(|slots| slots.count_mut(index)) {
                *count = count.saturating_sub(run.units);
            }
        }
        if changed {
            self.advance(state, now);
        }
        changed
    }

    fn force_charge(&self, state: &mut Option<Slots>, now: Timestamp, units: u64) -> ForcedCharge {
        let (used, repair) = self.used(state.as_ref(), now.as_micros());
        let headroom = self.ceiling().saturating_sub(used);
        let more = headroom.min(units);
        if more > 0 {
            self.add(state, now, more);
        } else if repair {
            self.advance(state, now);
        }
        let uncharged = units.saturating_sub(more);
        ForcedCharge { charged: more, uncharged, changed: repair || more > 0 }
    }

    fn figures(&self, state: Option<&Slots>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let at = self.slots_at(state, now.as_micros()).map(|(at, _)| at);
        self.figures_at(at.as_ref(), now, cost, admitted)
    }

    fn position(&self, state: Option<&Slots>, _: Timestamp) -> Position {
        Position::at(state.map_or(0, Slots::begin))
    }

    fn expires_at(&self, state: &Slots) -> u64 {
        if self.owns(state) { state.expires_at() } else { 0 }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "there is at least one slot")]
const fn width(period: u64, slots: u32) -> u64 {
    period / slots as u64
}

#[cfg(test)]
mod tests;
