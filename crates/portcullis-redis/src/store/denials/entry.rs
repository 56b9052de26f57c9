//! One remembered denial.

use std::time::Duration;

use portcullis_core::algorithm::Snapshot;
use portcullis_core::store::Check;
use portcullis_core::{Key, Policy, Retry, Strategy, Timestamp};

use super::{MAX_AGE_MICROS, MAX_OUTAGE_MICROS};

/// A policy and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    policy: u128,
    key: u128,
}

/// A remembered denial. Times without another clock are microseconds since the memory was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial {
    pub(super) id: Id,
    /// Includes the quota: a denial under another quota does not apply.
    strategy: Strategy,
    /// 0 for a blocked key, which denies every cost.
    pub(super) cost: u64,
    limit: u64,
    remaining: u64,
    reset_after: u64,
    next_after: u64,
    /// `u64::MAX` for never.
    retry_after: u64,
    /// On the store's clock.
    at: Timestamp,
    /// Before the request was sent.
    pub(super) sent: u64,
    /// After the reply came.
    answered: u64,
    /// How long it is valid after the request was sent, at most.
    longest: u64,
    is_blocked: bool,
}

/// So 65 536 of them take at most 13 MB, as the documentation says.
const _: () = assert!(size_of::<Option<Denial>>() <= 200);

impl Id {
    pub(super) fn of(policy: &Policy, key: Key) -> Self {
        Self { policy: policy.digest(), key: key.fingerprint() }
    }
}

impl Denial {
    /// Returns `None` if the snapshot is not a denial, or one without a known wait.
    pub(super) fn new(
        check: &Check,
        at: Timestamp,
        snapshot: &Snapshot,
        sent: u64,
        answered: u64,
    ) -> Option<Self> {
        let retry_after = match snapshot.retry? {
            Retry::After(wait) => micros(wait),
            // A request that ends may make room at any time.
            Retry::Unknown => return None,
            Retry::Never => u64::MAX,
        };
        Some(Self {
            id: Id::of(&check.policy, check.key),
            strategy: *check.policy.strategy(),
            cost: if snapshot.is_blocked { 0 } else { check.units() },
            limit: snapshot.limit,
            remaining: snapshot.remaining,
            reset_after: micros(snapshot.reset_after),
            next_after: micros(snapshot.next_after),
            retry_after,
            at,
            sent,
            answered,
            longest: MAX_OUTAGE_MICROS,
            is_blocked: snapshot.is_blocked,
        })
    }

    /// Makes the denial invalid at and after an instant of the store's clock.
    pub(super) fn until(self, end: Timestamp) -> Self {
        Self { longest: micros(end.saturating_since(self.at)).min(self.longest), ..self }
    }

    /// Whether an older denial of the same key is not needed beside it: one that applies to no other checks, or is held for hardly longer,
    /// or does not hold any more because of this one.
    pub(super) fn covers(&self, old: &Self) -> bool {
        let is_longer = old.held_until() > self.held_until().saturating_add(MAX_AGE_MICROS);
        self.strategy != old.strategy
            || self.cost == old.cost
            || self.cost < old.cost && !is_longer
            || self.contradicts(old)
    }

    /// Whether the block of an older denial has ended, or its cost fits now.
    fn contradicts(&self, old: &Self) -> bool {
        self.at >= old.at && !self.is_blocked && (old.is_blocked || old.cost <= self.remaining)
    }

    /// The order in which denials of one key answer a check: a block, and else the higher cost, whose wait is nearer to that of the check.
    pub(super) fn precedence(&self) -> (bool, u64) {
        (self.is_blocked, self.cost)
    }

    /// Whether it does not hold any more because the server has admitted the key since, at a cost and an instant of its clock.
    pub(super) fn is_refuted(&self, cost: u64, at: Timestamp) -> bool {
        cost >= self.cost && at > self.at
    }

    /// The first instant at which the server may answer differently. That is before the wait is over if units become available
    /// earlier, because the figures change then.
    pub(super) fn valid_until(&self) -> u64 {
        let shortest =
            if self.next_after == 0 { self.retry_after } else { self.retry_after.min(self.next_after) };
        self.sent.saturating_add(shortest.min(self.longest).min(MAX_AGE_MICROS))
    }

    /// The end of the denial in an outage, in which nothing else is known: the end of its wait.
    pub(super) fn held_until(&self) -> u64 {
        self.sent.saturating_add(self.retry_after.min(self.longest))
    }

    /// Whether a check of its policy and key is denied, until [`valid_until`](Self::valid_until) or [`held_until`](Self::held_until).
    pub(super) fn denies(&self, check: &Check) -> bool {
        check.units() >= self.cost && *check.policy.strategy() == self.strategy
    }

    pub(super) fn retry(&self) -> u64 {
        self.answered.saturating_add(self.retry_after)
    }

    /// The figures at `now`. For a higher cost than was denied the wait is too short, except for a cost that never fits.
    pub(super) fn counted_down(&self, check: &Check, now: u64) -> (Timestamp, Snapshot) {
        // Measured from the reply, not the request: a client that waits for the full retry time must not be denied again because
        // of the round trip.
        let age = Duration::from_micros(now.saturating_sub(self.answered));
        let never = self.retry_after == u64::MAX || (check.units() > self.limit && !self.is_blocked);
        let retry = if never { Retry::Never } else { Retry::After(Duration::from_micros(self.retry_after)) };
        let snapshot = Snapshot {
            limit: self.limit,
            remaining: self.remaining,
            reset_after: Duration::from_micros(self.reset_after),
            next_after: Duration::from_micros(self.next_after),
            retry: Some(retry),
            delay: Duration::ZERO,
            is_blocked: self.is_blocked,
        };
        (self.at.saturating_add(age), snapshot.counted_down(age))
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
