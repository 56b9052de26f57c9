//! Products and quotients of 128 bits, in 64 bits where they fit.

use core::num::NonZeroU64;

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
        let dividend = dividend as u64;
        ((dividend / by) as u128, dividend % by)
    } else {
        (dividend / by as u128, (dividend % by as u128) as u64)
    }
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
