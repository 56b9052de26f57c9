//! The exact meter that the rate-based algorithms share: GCRA, the token bucket and the leaky bucket.
//!
//! A meter has a level that sinks by one unit per emission interval `period / limit` and rises by each admitted cost. A cost
//! is admitted if the level stays within the burst. The algorithms are three views of it: GCRA keeps the theoretical arrival
//! time `now + level`, a token bucket has `burst - level` tokens, a leaky bucket holds `level` units of water.
//!
//! With a longest wait the level may rise above the burst, by what drains in that wait. A cost that ends above the burst is
//! admitted with a delay until the level is back at the burst: its slot is reserved by the charge itself.
//!
//! Nothing is rounded: the interval in lowest terms has a denominator `q`, and all times are whole numbers of 1/q
//! microseconds. In 128 bits no product overflows, see the bounds of [`Meter::new`].

mod debt;
mod decide;
mod narrow;
mod room;
mod step;
mod wide;

use core::num::{NonZeroU32, NonZeroU64};

pub(crate) use decide::{MeterAlgorithm, impl_meter_algorithm};
use room::Room;
pub(super) use step::Step;
use wide::{div_rem, product};

use super::debt::Debt;
use super::modulo;
use crate::charge::Position;
use crate::quota::MAX_MICROS;
use crate::{Quota, QuotaError, Timestamp};

/// The level of a meter, stored as the instant at which it will be empty: the theoretical arrival time.
///
/// Whole microseconds since the epoch, and a remainder in units of 1/q microsecond, where q is the denominator of the
/// meter. The remainder is zero if q is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct Tat {
    /// Whole microseconds since the Unix epoch.
    pub micros: u64,
    /// The fraction beyond them, in units of 1/q microsecond.
    pub remainder: u64,
}

impl Tat {
    /// The first whole microsecond at which the meter is empty.
    #[inline]
    fn empty_at(&self) -> u64 {
        self.micros.saturating_add(u64::from(self.remainder > 0))
    }
}

/// A length of time: whole microseconds, and a remainder in units of 1/q microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: a length of time is these two numbers.
pub struct Span {
    /// Whole microseconds.
    pub micros: u64,
    /// The fraction beyond them, in units of 1/q microsecond; less than the meter's denominator q.
    pub remainder: u64,
}

/// A rate and a burst in exact arithmetic.
///
/// ```
/// use portcullis_core::algorithm::{Meter, Span};
/// use portcullis_core::Quota;
///
/// let thirds = Meter::new(Quota::per_second(3), 2)?;
/// assert_eq!(thirds.denominator(), 3);
/// assert_eq!(thirds.span(1), Span { micros: 333_333, remainder: 1 });
/// assert_eq!(thirds.capacity(), Span { micros: 666_666, remainder: 2 });
/// assert!(thirds.span(3).micros > thirds.capacity().micros);
/// # Ok::<(), portcullis_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meter {
    burst: u64,
    /// The emission interval is `interval / q` microseconds, in lowest terms.
    interval: NonZeroU64,
    q: NonZeroU64,
    /// The step in which time passes, and the period of a token bucket.
    step: Step,
    /// The highest level at which a cost is admitted: the burst, and what drains in the longest wait.
    room: Room,
    /// The largest debt, and the ceiling that all quotas of a policy share.
    debt: Debt,
}

impl Meter {
    /// A meter at the rate of `quota` that admits `burst` units at once.
    ///
    /// # Errors
    ///
    /// If `burst` is zero while the limit is not, or more than [`Quota::MAX_UNITS`], or if the burst would take longer than 2^51 microseconds to refill.
    pub const fn new(quota: Quota, burst: u64) -> Result<Self, QuotaError> {
        // Under a quota of zero a level sinks at any rate.
        let units = if quota.is_zero() { 1 } else { quota.limit() };
        let (Some(interval), Some(q)) = lowest_terms(quota.period_micros(), units) else {
            return Err(QuotaError::ZeroPeriod);
        };
        if burst == 0 && !quota.is_zero() {
            return Err(QuotaError::ZeroBurst);
        }
        if burst > Quota::MAX_UNITS && !quota.is_unlimited() {
            return Err(QuotaError::TooManyUnits { units: burst });
        }
        let (step, room, debt) = (Step::MICROSECOND, Room::NONE, Debt::of(quota));
        Self { burst, interval, q, step, room, debt }.with_wait(0)
    }

    /// Sets the longest wait, in microseconds: at most [`MAX_WAIT`](crate::Policy::MAX_WAIT), and with interval refill a multiple of the
    /// period.
    #[expect(clippy::arithmetic_side_effects, reason = "a burst and a wait are below 2^115")]
    pub(crate) const fn with_wait(self, micros: u64) -> Result<Self, QuotaError> {
        let highest = self.full() + product(self.q.get(), micros);
        if highest > (MAX_MICROS as u128).saturating_mul(self.q.get() as u128) {
            return Err(QuotaError::FillsTooSlowly { burst: self.burst });
        }
        Ok(self.with_room(micros))
    }

    /// A meter for `quota`, with `default_burst` if the quota has no burst.
    pub(crate) const fn for_quota(quota: Quota, default_burst: u64) -> Result<Self, QuotaError> {
        match quota.explicit_burst() {
            Some(burst) => Self::new(quota, burst),
            None if quota.is_zero() || quota.is_unlimited() => Self::new(quota, quota.limit()),
            None => Self::new(quota, default_burst),
        }
    }

    /// The meter of one of `instances`: a share of the burst, at least 1, at a share of the rate.
    #[expect(clippy::arithmetic_side_effects, reason = "there is at least one instance")]
    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        let share = self.burst / instances.get() as u64;
        let burst = if share > 1 { share } else { 1 };
        let too_slow = Err(QuotaError::FillsTooSlowly { burst });
        let Some(interval) = self.interval.get().checked_mul(instances.get() as u64) else { return too_slow };
        let (Some(interval), Some(q)) = lowest_terms(interval, self.q.get()) else { return too_slow };
        let (room, debt) = (Room::NONE, self.debt_of_share(instances));
        Self { burst, interval, q, step: self.step, room, debt }.with_wait(self.wait())
    }

    /// Sets the burst, and removes the longest wait.
    pub(crate) const fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        if burst > Quota::MAX_UNITS {
            return Err(QuotaError::TooManyUnits { units: burst });
        }
        Self { burst, ..self }.with_wait(0)
    }

    /// The whole units that drain in `micros`.
    pub(crate) const fn units_in(&self, micros: u64) -> u64 {
        let (units, _) = div_rem(product(self.q.get(), micros), self.interval);
        if units > u64::MAX as u128 {
            return u64::MAX;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the branch above bounds it")]
        {
            units as u64
        }
    }

    /// The most units that are admitted at one instant without a delay; of a leaky bucket, with its delays.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Whether a unit takes longer to drain than under `quota`.
    pub(crate) const fn is_slower_than(&self, quota: Quota) -> bool {
        product(self.interval.get(), quota.limit()) > product(self.q.get(), quota.period_micros())
    }

    /// Whether a unit drains faster than under `quota`.
    pub(crate) const fn is_faster_than(&self, quota: Quota) -> bool {
        product(self.interval.get(), quota.limit()) < product(self.q.get(), quota.period_micros())
    }

    /// The denominator q of the emission interval: remainders count 1/q microseconds.
    ///
    /// It divides the limit of the quota, so it is at most [`Quota::MAX_UNITS`]: a store whose numbers are doubles adds two
    /// remainders exactly.
    pub const fn denominator(&self) -> u64 {
        self.q.get()
    }

    /// The emission interval, in units of 1/q microsecond.
    pub(crate) const fn interval(&self) -> NonZeroU64 {
        self.interval
    }

    /// The step in which time passes for this meter, in microseconds: 1, or the period if units are refilled at its multiples.
    #[inline]
    pub const fn grain(&self) -> u64 {
        self.step.grain()
    }

    /// Sets the step, and removes the longest wait.
    pub(super) const fn with_step(self, step: Step) -> Self {
        Self { step, ..self }.with_room(0)
    }

    pub(super) const fn step(&self) -> Step {
        self.step
    }

    /// The level of a full meter.
    pub const fn capacity(&self) -> Span {
        self.span_of(self.full())
    }

    /// The longest delay of an admitted cost, in microseconds; 0 if a cost that exceeds the [capacity](Meter::capacity) is denied.
    pub const fn wait(&self) -> u64 {
        match self.room.narrow() {
            #[expect(clippy::cast_possible_truncation, reason = "a narrow level is below 2^62")]
            Some(highest) => div_rem(highest.wrapping_sub(self.full() as u64) as u128, self.q).0 as u64,
            None => self.room.wait(),
        }
    }

    /// The highest level at which a cost is admitted: the [capacity](Meter::capacity), and what drains in the longest
    /// [wait](Meter::wait).
    pub const fn highest(&self) -> Span {
        self.span_of(self.highest_level())
    }

    /// What `cost` units add to the level, at most the ceiling, which by default is twice the [`highest`](Meter::highest) level: that
    /// is enough to empty any meter or to fill it with debt.
    pub const fn span(&self, cost: u64) -> Span {
        let (units, ceiling) = (self.units(cost), self.ceiling_level());
        self.span_of(if units < ceiling { units } else { ceiling })
    }

    /// Like [`span`](Meter::span), for a check: it exceeds the [`highest`](Meter::highest) level exactly if the cost can never fit,
    /// because it is more than the burst.
    pub const fn span_to_check(&self, cost: u64) -> Span {
        if cost <= self.burst {
            return self.span(cost);
        }
        let beyond = self.highest_level().saturating_mul(2);
        self.span_of(if beyond == 0 { 1 } else { beyond })
    }

    /// The position that a charge would have without its newest `units` units.
    pub(crate) fn position_before(&self, position: Position, units: u64) -> Position {
        let end = u128::from(position.micros).saturating_mul(self.denominator().into());
        let end = end.saturating_add(position.remainder.into());
        let Span { micros, remainder } = self.span_of(end.saturating_sub(self.units(units)));
        Position { micros, remainder }
    }

    /// The level at `now` in 1/q microseconds, and whether a clock step had to be repaired: charges cannot raise the level
    /// above the ceiling, so such a level is cut to the highest.
    #[inline]
    fn level(&self, state: Option<&Tat>, now: Timestamp) -> (u128, bool) {
        let level = self.raw_level(state, now);
        if level > self.ceiling_level() { (self.highest_level(), true) } else { (level, false) }
    }

    #[inline]
    fn raw_level(&self, state: Option<&Tat>, now: Timestamp) -> u128 {
        state.map_or(0, |arrival| self.ahead(arrival.micros, arrival.remainder, now))
    }

    /// The time from `now` to an instant, in 1/q microseconds; zero if the instant has passed.
    #[inline]
    fn ahead(&self, micros: u64, remainder: u64, now: Timestamp) -> u128 {
        let (micros, remainder) = self.in_own_units(micros, remainder);
        let Some(whole) = micros.checked_sub(self.tick(now)) else { return 0 };
        product(whole, self.denominator()).saturating_add(remainder.into())
    }

    /// An instant with a remainder of this meter: one from before the quota changed counts as a whole microsecond.
    #[inline]
    fn in_own_units(&self, micros: u64, remainder: u64) -> (u64, u64) {
        if remainder < self.q.get() { (micros, remainder) } else { next_micro(micros) }
    }

    #[inline]
    fn tat_for(&self, level: u128, now: Timestamp) -> Option<Tat> {
        if level == 0 {
            return None;
        }
        let Span { micros, remainder } = self.span_of(level);
        Some(Tat { micros: self.tick(now).saturating_add(micros), remainder })
    }

    #[inline]
    fn remaining(&self, level: u128) -> u64 {
        let headroom = self.full().saturating_sub(level);
        u64::try_from(div_rem(headroom, self.interval).0).unwrap_or(self.burst)
    }

    /// The smallest wait after which `cost` units on top of the remaining `level` end at most at `highest`, in microseconds.
    #[inline]
    fn wait_until_fits(&self, level: u128, highest: u128, now: Timestamp, cost: u64) -> u64 {
        let highest = highest.saturating_sub(self.units(cost));
        self.wait_for(level.saturating_sub(highest), now)
    }

    /// The smallest wait from `now` after which `drain` has drained, in microseconds.
    #[inline]
    fn wait_for(&self, drain: u128, now: Timestamp) -> u64 {
        self.wait_for_micros(self.ceil_micros(drain), now)
    }

    /// The smallest wait from `now` after which `drain` microseconds have drained.
    #[inline]
    fn wait_for_micros(&self, drain: u64, now: Timestamp) -> u64 {
        if self.step.is_continuous() {
            // There is no instant beyond 2^64.
            return drain.min(u64::MAX.saturating_sub(now.as_micros()));
        }
        if drain == 0 {
            return 0;
        }
        let ticked = self.tick_at_or_after(self.tick(now).saturating_add(drain));
        ticked.saturating_sub(now.as_micros())
    }

    #[inline]
    fn ceil_micros(&self, length: u128) -> u64 {
        let (whole, remainder) = div_rem(length, self.q);
        u64::try_from(whole.saturating_add(u128::from(remainder > 0))).unwrap_or(u64::MAX)
    }

    /// The last tick of this meter that is not after `now`.
    #[inline]
    fn tick(&self, now: Timestamp) -> u64 {
        let now = now.as_micros();
        if self.step.is_continuous() { now } else { now.saturating_sub(modulo(now, self.grain())) }
    }

    #[inline]
    fn tick_at_or_after(&self, micros: u64) -> u64 {
        if self.step.is_continuous() {
            return micros;
        }
        micros.checked_next_multiple_of(self.grain()).unwrap_or(u64::MAX)
    }

    /// The level of a full meter in 1/q microseconds, less than 2^64 * 2^50.
    #[inline]
    const fn full(&self) -> u128 {
        self.units(self.burst)
    }

    /// The highest level at which a cost is admitted, in 1/q microseconds.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "both are below 2^115")]
    const fn highest_level(&self) -> u128 {
        match self.room.narrow() {
            Some(highest) => highest as u128,
            None => self.full() + product(self.q.get(), self.room.wait()),
        }
    }

    #[inline]
    const fn units(&self, count: u64) -> u128 {
        product(self.interval.get(), count)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "levels stay below 2^52 microseconds")]
    const fn span_of(&self, length: u128) -> Span {
        let (micros, remainder) = div_rem(length, self.q);
        Span { micros: micros as u64, remainder }
    }
}

/// The next whole microsecond. Cold, so that nothing is computed for the case that a quota has changed.
#[cold]
fn next_micro(micros: u64) -> (u64, u64) {
    (micros.saturating_add(1), 0)
}

/// Both numbers divided by their greatest common divisor.
#[expect(clippy::arithmetic_side_effects, reason = "no divisor is zero")]
const fn lowest_terms(numerator: u64, denominator: u64) -> (Option<NonZeroU64>, Option<NonZeroU64>) {
    let (mut divisor, mut rest) = (numerator, denominator);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    if divisor == 0 {
        return (None, None);
    }
    (NonZeroU64::new(numerator / divisor), NonZeroU64::new(denominator / divisor))
}

const _: () = assert!(Quota::MAX_UNITS < 1 << 52, "the sum of two remainders is exact in a double");

#[cfg(test)]
mod tests;
