//! The decisions of the rate-based algorithms.

use super::narrow::Narrow;
use super::wide::div_rem;
use super::{Meter, Tat};
use crate::Timestamp;
use crate::algorithm::{Algorithm, Evaluation, Figures, ForcedCharge, sealed};
use crate::charge::{Position, Run};
use crate::refund::Refund;

/// A rate-based algorithm: GCRA, the token bucket and the leaky bucket decide by the same level.
#[expect(unnameable_types, reason = "other crates cannot implement an algorithm")]
pub trait MeterAlgorithm {
    /// Whether an admitted request waits until all requests admitted before it have drained, instead of those beyond the burst.
    const QUEUES: bool;

    fn meter(&self) -> &Meter;
}

/// Makes a type with a meter a rate-based algorithm, and gives it the shares and the debt of that meter.
macro_rules! impl_meter_algorithm {
    ($algorithm:ident, queues: $queues:literal) => {
        impl $algorithm {
            pub(crate) const fn share(&self, instances: core::num::NonZeroU32) -> Result<Self, QuotaError> {
                match self.meter.share(instances) {
                    Ok(meter) => Ok(Self { meter }),
                    Err(error) => Err(error),
                }
            }

            pub(crate) const fn with_debt(self, debt: crate::algorithm::debt::Debt) -> Self {
                Self { meter: self.meter.with_debt(debt) }
            }
        }

        impl crate::algorithm::meter::MeterAlgorithm for $algorithm {
            const QUEUES: bool = $queues;

            fn meter(&self) -> &Meter {
                &self.meter
            }
        }
    };
}

pub(crate) use impl_meter_algorithm;

impl<A: MeterAlgorithm> sealed::Sealed for A {}

impl<A: MeterAlgorithm> Algorithm for A {
    type State = Tat;

    #[inline]
    fn evaluate(&self, state: Option<&Tat>, now: Timestamp, cost: u64) -> Evaluation {
        let meter = self.meter();
        match Narrow::of(meter) {
            Some(narrow) => narrow.evaluate(narrow.level(state, now), cost),
            None => meter.evaluate_wide(state.copied(), now, cost),
        }
    }

    #[inline]
    fn advance(&self, state: &mut Option<Tat>, now: Timestamp) {
        let meter = self.meter();
        let (level, _) = meter.level(state.as_ref(), now);
        *state = meter.tat_for(level, now);
    }

    #[inline]
    fn charge(&self, state: &mut Option<Tat>, now: Timestamp, units: u64) {
        let meter = self.meter();
        *state = match Narrow::of(meter).filter(|_| units <= meter.burst) {
            Some(narrow) => narrow.charged(narrow.level(state.as_ref(), now), now, units),
            None => meter.charged_wide(*state, now, units),
        };
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a state that is passed through memory takes longer to read than the level to compute"
    )]
    fn check(&self, state: &mut Option<Tat>, now: Timestamp, cost: u64) -> (bool, bool) {
        let meter = self.meter();
        // The level is computed once.
        let narrow = Narrow::of(meter).map(|narrow| (narrow, narrow.level(state.as_ref(), now)));
        let Evaluation { admitted, repair } = match narrow {
            Some((narrow, level)) => narrow.evaluate(level, cost),
            None => meter.evaluate_wide(*state, now, cost),
        };
        let charges = admitted && cost > 0;
        if charges {
            *state = match narrow {
                Some((narrow, level)) => narrow.charged(level, now, cost),
                None => meter.charged_wide(*state, now, cost),
            };
        } else if repair {
            self.advance(state, now);
        }
        (admitted, charges || repair)
    }

    /// Each run occupies the time from its end backwards, one interval per unit. The part before now is replenished already.
    ///
    /// A level that is too high because of a clock step is not cut here, but by the next decision: a refund frees what was
    /// charged, never more.
    fn refund(&self, state: &mut Option<Tat>, now: Timestamp, refund: Refund<'_>) -> bool {
        let meter = self.meter();
        let level = meter.raw_level(state.as_ref(), now);
        let most = meter.ceiling_level();
        let mut left = level;
        for Run { units, position } in refund.runs() {
            let ahead = meter.ahead(position.micros, position.remainder, now);
            if !refund.only_newest() || ahead == left {
                left = left.saturating_sub(ahead.min(meter.units(units)).min(most));
            }
        }
        if left != level {
            *state = meter.tat_for(left, now);
        }
        left != level
    }

    fn force_charge(&self, state: &mut Option<Tat>, now: Timestamp, units: u64) -> ForcedCharge {
        let meter = self.meter();
        let (level, repair) = meter.level(state.as_ref(), now);
        let wanted = level.saturating_add(meter.units(units));
        // Another quota of the policy may have left a higher level, which stays.
        let deepest = meter.deepest_level().max(level);
        let (beyond, _) = div_rem(wanted.saturating_sub(deepest), meter.interval);
        let most = wanted.min(deepest);
        let changed = repair || most != level;
        if changed {
            *state = meter.tat_for(most, now);
        }
        let (added, _) = div_rem(most.saturating_sub(level), meter.interval);
        ForcedCharge {
            charged: u64::try_from(added).unwrap_or(units).min(units),
            uncharged: u64::try_from(beyond).unwrap_or(units).min(units),
            changed,
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "figures that are returned through memory take longer to read than to compute"
    )]
    fn figures(&self, state: Option<&Tat>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let meter = self.meter();
        match Narrow::of(meter) {
            Some(narrow) => narrow.figures(state, now, cost, admitted, A::QUEUES),
            None => meter.figures_wide(state.copied(), now, cost, admitted, A::QUEUES),
        }
    }

    #[inline]
    fn position(&self, state: Option<&Tat>, now: Timestamp) -> Position {
        state.map_or(Position::at(now.as_micros()), |tat| Position {
            micros: tat.micros,
            remainder: tat.remainder,
        })
    }

    #[inline]
    fn expires_at(&self, state: &Tat) -> u64 {
        self.meter().tick_at_or_after(state.empty_at())
    }
}
