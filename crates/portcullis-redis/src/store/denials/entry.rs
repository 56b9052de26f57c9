//! One denial.

use std::time::Duration;

use portcullis_core::{Check, Key, Policy, Retry, Snapshot, Strategy, Timestamp};

use super::MAX_AGE_MICROS;

/// A policy and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    policy: u128,
    key: u128,
}

/// What is kept of a denial. Times without another clock are microseconds since the memory was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial {
    id: Id,
    /// With the quota: a denial under another quota says nothing.
    strategy: Strategy,
    cost: u32,
    limit: u32,
    remaining: u32,
    reset_after: u64,
    next_after: u64,
    /// `u64::MAX` for never.
    retry_after: u64,
    /// On the store's clock.
    at: Timestamp,
    /// Before the question was sent.
    asked: u64,
    /// After the answer came.
    answered: u64,
}

impl Id {
    pub(super) fn of(policy: &Policy, key: Key) -> Self {
        Self { policy: policy.digest(), key: key.fingerprint() }
    }
}

impl Denial {
    /// `None` if the snapshot is of no denial, or too old to be remembered.
    pub(super) fn new(
        check: &Check,
        at: Timestamp,
        snapshot: &Snapshot,
        asked: u64,
        answered: u64,
    ) -> Option<Self> {
        let retry_after = match snapshot.retry? {
            Retry::After(wait) => micros(wait),
            Retry::Never => u64::MAX,
        };
        let denial = Self {
            id: Id::of(&check.policy, check.key),
            strategy: *check.policy.strategy(),
            cost: check.cost,
            limit: snapshot.limit,
            remaining: snapshot.remaining,
            reset_after: micros(snapshot.reset_after),
            next_after: micros(snapshot.next_after),
            retry_after,
            at,
            asked,
            answered,
        };
        (answered < denial.valid_until()).then_some(denial)
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    pub(super) fn cost(&self) -> u32 {
        self.cost
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// From when on the server may answer otherwise. That is so before the wait is over where more units than were denied
    /// flow back earlier: then its figures would be others.
    pub(super) fn valid_until(&self) -> u64 {
        let shortest =
            if self.next_after == 0 { self.retry_after } else { self.retry_after.min(self.next_after) };
        self.asked.saturating_add(shortest.min(MAX_AGE_MICROS))
    }

    /// Whether the server would deny a check of its policy and key, until [`valid_until`](Self::valid_until).
    pub(super) fn denies(&self, check: &Check) -> bool {
        check.cost >= self.cost && *check.policy.strategy() == self.strategy
    }

    pub(super) fn retry(&self) -> u64 {
        self.answered.saturating_add(self.retry_after)
    }

    /// The figures as they are now. For a higher cost than was denied the wait is too short, but for one that never fits.
    pub(super) fn counted_down(&self, check: &Check, now: u64) -> (Timestamp, Snapshot) {
        // From the answer, not the question: a caller who waits for as long as it was told is not denied again for a trip.
        let age = Duration::from_micros(now.saturating_sub(self.answered));
        let never = self.retry_after == u64::MAX || check.cost > self.limit;
        let retry = if never { Retry::Never } else { Retry::After(Duration::from_micros(self.retry_after)) };
        let snapshot = Snapshot {
            limit: self.limit,
            remaining: self.remaining,
            reset_after: Duration::from_micros(self.reset_after),
            next_after: Duration::from_micros(self.next_after),
            retry: Some(retry),
            delay: Duration::ZERO,
        };
        (self.at.saturating_add(age), snapshot.counted_down(age))
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
