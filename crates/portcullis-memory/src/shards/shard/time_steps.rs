//! How long the states of rate-based algorithms are kept.

use portcullis_core::Strategy;
use portcullis_core::algorithm::State;

/// The steps in which time passes under the strategies that use a shard. Two versions of a policy use the same states, and one of them may
/// refill at intervals: a state that has expired under one of them may still count under the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSteps {
    /// The step of the latest strategy, in microseconds.
    latest: u64,
    /// By how much longer states are kept, in microseconds: zero until there are different steps.
    extra: u64,
}

impl TimeSteps {
    pub(super) fn of(strategy: &Strategy) -> Self {
        Self { latest: time_step(strategy), extra: 0 }
    }

    /// Adds a strategy that uses the shard. Returns whether its step differs, so that states expire at other instants.
    #[inline]
    pub(super) fn add(&mut self, strategy: &Strategy) -> bool {
        let step = time_step(strategy);
        let differs = step != self.latest;
        if differs {
            self.extra = self.extra.max(step.max(self.latest) - 1);
            self.latest = step;
        }
        differs
    }

    /// Whether time passes continuously under the latest strategy.
    #[inline]
    pub(super) fn are_continuous(self) -> bool {
        self.latest == 1
    }

    /// By how much longer states are kept than their strategy requires, in microseconds.
    #[inline]
    pub(super) fn extra(self) -> u64 {
        self.extra
    }

    /// The first instant, in microseconds, from which a state decides like an absent one under all strategies: an instant
    /// rounded up to a step is less than one step later.
    pub(super) fn expires_at(self, strategy: &Strategy, state: &State) -> u64 {
        strategy.expires_at(state).saturating_add(self.extra)
    }
}

/// At least 1.
#[inline]
pub(crate) fn time_step(strategy: &Strategy) -> u64 {
    match strategy {
        Strategy::TokenBucket(bucket) => bucket.meter().grain(),
        Strategy::Gcra(gcra) => gcra.meter().grain(),
        Strategy::LeakyBucket(bucket) => bucket.meter().grain(),
        Strategy::FixedWindow(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingWindow(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use portcullis_core::algorithm::Tat;
    use portcullis_core::{Quota, Refill, TokenBucket};

    use super::*;

    const MINUTE: u64 = 60_000_000;

    fn bucket(refill: Refill) -> Strategy {
        Strategy::TokenBucket(TokenBucket::new(Quota::per_minute(10)).unwrap().refilled(refill))
    }

    #[test]
    fn state_is_kept_until_every_step_ends() {
        let (greedy, interval) = (bucket(Refill::Greedy), bucket(Refill::Interval));
        let state = State::Tat(Tat { micros: MINUTE + 1, remainder: 0 });
        let mut steps = TimeSteps::of(&interval);
        steps.add(&interval);
        assert_eq!(steps.expires_at(&interval, &state), 2 * MINUTE);
        for strategy in [&greedy, &interval, &greedy] {
            steps.add(strategy);
            assert!(steps.expires_at(strategy, &state) >= 2 * MINUTE);
        }
        assert_eq!(steps.expires_at(&greedy, &state), 2 * MINUTE);
    }
}
