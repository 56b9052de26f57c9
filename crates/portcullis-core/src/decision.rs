//! What is answered.

use core::time::Duration;

use crate::{Policy, PolicyName, Snapshot, Timestamp};

/// The answer to one request, under the policy that decided it.
///
/// ```
/// use portcullis_core::{Decision, Policy, Quota, Timestamp};
///
/// let policy = Policy::gcra("search", Quota::per_second(2).burst(2));
/// let now = Timestamp::from_micros(0);
/// let charged = policy.strategy().decide(None, now, 1);
/// let snapshot = policy.strategy().snapshot(charged.after.as_ref(), now, 1, charged.admitted);
/// let decision = Decision::new(&policy, now, snapshot);
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (2, 1));
/// assert_eq!(decision.reset_after().as_millis(), 500);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    policy: PolicyName,
    verdict: Verdict,
    limit: u32,
    remaining: u32,
    reset_after: Duration,
    next_after: Duration,
    at: Timestamp,
    basis: Basis,
}

/// What a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    Store,
    /// A share of the limit, counted while the store could not answer.
    StandIn,
    Nothing,
    /// Nothing was asked, and nothing has failed.
    Unasked,
}

/// Let through or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let through, after `delay`.
    Allow {
        /// How long to wait first: zero but for a queue.
        delay: Duration,
    },
    /// Not let through, and not charged.
    Deny(Retry),
}

/// When a denied cost is worth another try. The order is that of the waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After this wait it fits if nobody else comes; one microsecond earlier it does not.
    After(Duration),
    /// The cost exceeds what can ever be admitted at once.
    Never,
}

impl Decision {
    /// A decision under `policy` at the instant `at` of the store's clock.
    pub fn new(policy: &Policy, at: Timestamp, snapshot: Snapshot) -> Self {
        let Snapshot { limit, remaining, reset_after, next_after, retry, delay } = snapshot;
        let verdict = retry.map_or(Verdict::Allow { delay }, Verdict::Deny);
        let policy = policy.name().clone();
        Self { policy, verdict, limit, remaining, reset_after, next_after, at, basis: Basis::Store }
    }

    /// Lets a request through that no store was asked about, or could answer: nothing is known to be used.
    pub fn degraded(policy: &Policy, at: Timestamp) -> Self {
        let limit = policy.strategy().limit();
        let snapshot = Snapshot {
            limit,
            remaining: limit,
            reset_after: Duration::ZERO,
            next_after: Duration::ZERO,
            retry: None,
            delay: Duration::ZERO,
        };
        Self { basis: Basis::Nothing, ..Self::new(policy, at, snapshot) }
    }

    /// The decision of a policy that was not asked, because another one had denied the request before: nothing is known to
    /// be used, and nothing is charged.
    pub fn unasked(policy: &Policy, at: Timestamp) -> Self {
        Self { basis: Basis::Unasked, ..Self::degraded(policy, at) }
    }

    /// The same decision, made by what counts while the store cannot answer: its figures are of a share of the limit.
    pub fn as_fallback(self) -> Self {
        Self { basis: Basis::StandIn, ..self }
    }

    /// Whether the request goes through.
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow { .. })
    }

    /// Let through or not, and when.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// When to try again, if the request was denied.
    pub const fn retry(&self) -> Option<Retry> {
        match self.verdict {
            Verdict::Allow { .. } => None,
            Verdict::Deny(retry) => Some(retry),
        }
    }

    /// How long an admitted request waits before it goes through; zero for a denied one.
    pub const fn delay(&self) -> Duration {
        match self.verdict {
            Verdict::Allow { delay } => delay,
            Verdict::Deny(_) => Duration::ZERO,
        }
    }

    /// The name of the policy that decided.
    pub const fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// The most that [`remaining`](Decision::remaining) can be: the limit of windows, the burst of meters.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Units that would be admitted right now, from 0 to [`limit`](Decision::limit).
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The smallest wait after which the caller counts as one who never came; whole microseconds.
    pub const fn reset_after(&self) -> Duration {
        self.reset_after
    }

    /// The wait until [`remaining`](Decision::remaining) grows; zero when it is at the limit. Whole microseconds.
    pub const fn next_after(&self) -> Duration {
        self.next_after
    }

    /// When this was decided, on the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether the store could not answer, and this is what the policy has [said](crate::FailureMode) for then.
    pub const fn is_degraded(&self) -> bool {
        matches!(self.basis, Basis::StandIn | Basis::Nothing)
    }

    /// Whether somebody counts, so that the figures mean something: the store or, where the decision is
    /// [degraded](Decision::is_degraded), what stands in for it. If nobody does, the request goes through, as far as this
    /// policy is concerned.
    pub const fn is_metered(&self) -> bool {
        matches!(self.basis, Basis::Store | Basis::StandIn)
    }

    /// The one that counts of several: of the denying ones the longest wait, else one that is
    /// [counted](Decision::is_metered), then the least remaining, then the longest reset, then the first. `None` if there are
    /// none.
    pub fn decisive<'a>(decisions: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        decisions.into_iter().reduce(|best, next| if next.outranks(best) { next } else { best })
    }

    /// Whether this decision counts before `other` if it stands behind it.
    pub(crate) fn outranks(&self, other: &Self) -> bool {
        let rank = |decision: &Self| {
            let least = core::cmp::Reverse(decision.remaining);
            (decision.retry(), decision.is_metered(), least, decision.reset_after)
        };
        rank(self) > rank(other)
    }

    pub(crate) fn delayed_by(&mut self, longest: Duration) {
        if let Verdict::Allow { delay } = &mut self.verdict {
            *delay = longest;
        }
    }
}

#[cfg(test)]
mod tests;
