//! The decisions of a meter in 128 bits; products and quotients, in 64 bits where they fit.

use core::num::NonZeroU64;

use super::{Meter, Tat};
use crate::Timestamp;
use crate::algorithm::{Evaluation, Figures, answer};

// Not inlined, because the few quotas that need them are not worth a place beside the decisions in 64 bits. States are passed by value,
// so that those decisions can keep them in registers.
impl Meter {
    /// The evaluation in 128 bits.
    #[inline(never)]
    pub(super) fn evaluate_wide(&self, state: Option<Tat>, now: Timestamp, cost: u64) -> Evaluation {
        let (level, repair) = self.level(state.as_ref(), now);
        let fits = || cost <= self.burst && level.saturating_add(self.units(cost)) <= self.highest_level();
        let admitted = cost == 0 || fits();
        Evaluation { admitted, repair }
    }

    /// The state after a charge, in 128 bits.
    #[inline(never)]
    pub(super) fn charged_wide(&self, state: Option<Tat>, now: Timestamp, units: u64) -> Option<Tat> {
        let (level, _) = self.level(state.as_ref(), now);
        self.tat_for(level.saturating_add(self.units(units)), now)
    }

    /// The figures of a decision, in 128 bits. `queues` is whether an admitted cost waits for all costs before it.
    #[inline(never)]
    pub(super) fn figures_wide(
        &self,
        state: Option<Tat>,
        now: Timestamp,
        cost: u64,
        admitted: bool,
        queues: bool,
    ) -> Figures {
        let (level, _) = self.level(state.as_ref(), now);
        let remaining = self.remaining(level);
        let next_after = if remaining == self.burst {
            0
        } else {
            self.wait_until_fits(level, self.full(), now, remaining.saturating_add(1))
        };
        let (answer, denied) = answer(admitted, cost, self.burst, || {
            self.wait_until_fits(level, self.highest_level(), now, cost)
        });
        let at_once = if queues { self.units(cost) } else { self.full() };
        let before = if admitted && cost > 0 { level.saturating_sub(at_once) } else { 0 };
        Figures {
            limit: self.burst,
            remaining,
            reset_after: self.wait_for(level, now),
            next_after,
            // One of the two is zero.
            wait: denied.max(self.wait_for(before, now)),
            answer,
        }
    }
}

/// The product of two factors below 2^64 is below 2^128: one instruction, without a check.
#[inline]
pub(super) const fn product(left: u64, right: u64) -> u128 {
    (left as u128).wrapping_mul(right as u128)
}

/// The quotient and the remainder. A division of 128 bits is a call that takes several times as long as one of 64 bits, and
/// most levels and intervals are below 2^64; most quotas have a divisor of 1.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the branch bounds the dividend, the divisor the remainder"
)]
#[expect(clippy::arithmetic_side_effects, reason = "the divisor is not zero")]
pub(super) const fn div_rem(dividend: u128, divisor: NonZeroU64) -> (u128, u64) {
    let by = divisor.get();
    if by == 1 {
        (dividend, 0)
    } else if dividend <= u64::MAX as u128 {
        let (quotient, remainder) = div_rem_narrow(dividend as u64, divisor);
        (quotient as u128, remainder)
    } else {
        (dividend / by as u128, (dividend % by as u128) as u64)
    }
}

/// The quotient and the remainder in 64 bits.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "the divisor is not zero")]
pub(super) const fn div_rem_narrow(dividend: u64, divisor: NonZeroU64) -> (u64, u64) {
    let by = divisor.get();
    if by == 1 { (dividend, 0) } else { (dividend / by, dividend % by) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Below, around and above 2^64, where the division changes its width.
    fn dividends() -> impl Strategy<Value = u128> {
        let bound = 1_u128 << 64;
        prop_oneof![any::<u64>().prop_map(u128::from), bound - 9..bound + 9, any::<u128>(), Just(u128::MAX)]
    }

    proptest! {
        #[test]
        fn narrow_arithmetic_equals_that_of_128_bits(
            dividend in dividends(),
            factor in prop_oneof![Just(u64::MAX), any::<u64>()],
            divisor in prop_oneof![1_u64..4, Just(u64::MAX), Just(1_u64 << 51), 1_u64..=u64::MAX],
        ) {
            let wide = u128::from(divisor);
            let (quotient, remainder) = div_rem(dividend, NonZeroU64::new(divisor).unwrap());
            prop_assert_eq!((quotient, u128::from(remainder)), (dividend / wide, dividend % wide));
            prop_assert_eq!(Some(product(factor, divisor)), u128::from(factor).checked_mul(wide));
        }
    }
}
