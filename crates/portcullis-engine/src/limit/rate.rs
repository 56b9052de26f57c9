//! The rate at which the units of a policy drain.

use std::cmp::Ordering;

use portcullis_core::Policy;
use portcullis_core::algorithm::Span;

/// The time in which a unit drains under a rate-based policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    micros: u64,
    remainder: u64,
    denominator: u64,
}

impl Rate {
    /// `None` under windows, logs and limits on requests in flight, where a refund frees units and no time.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let meter = policy.strategy().meter()?;
        let Span { micros, remainder } = meter.span(1);
        Some(Self { micros, remainder, denominator: meter.denominator() })
    }
}

impl Ord for Rate {
    /// The rate with the longer time is the greater one.
    fn cmp(&self, other: &Self) -> Ordering {
        let fraction = |one: &Self, other: &Self| u128::from(one.remainder) * u128::from(other.denominator);
        self.micros.cmp(&other.micros).then_with(|| fraction(self, other).cmp(&fraction(other, self)))
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use portcullis_core::Quota;

    use super::*;

    #[test]
    fn rates_differ_by_the_time_of_a_unit_alone() {
        let gcra = |quota| Rate::of(&Policy::gcra("p", quota));
        assert_eq!(gcra(Quota::per_minute(60)), gcra(Quota::per_second(1).burst(9)));
        let rates = [3, 7, 700_000, 750_000, 1_400_000].map(|limit| gcra(Quota::per_second(limit)));
        assert!(rates.is_sorted_by(|slower, faster| slower > faster), "{rates:?}");
        assert_eq!(Rate::of(&Policy::fixed_window("p", Quota::per_day(1))), None);
    }
}
