//! The decision on one request under one policy.

use core::time::Duration;

use crate::algorithm::snapshot::Answer;
use crate::algorithm::{Figures, Snapshot};
use crate::compact::Nanos;
use crate::{Policy, PolicyName, Quota, Retry, Timestamp};

/// The decision on one request under one policy.
///
/// ```
/// use portcullis::{Decision, Policy, Quota, Timestamp};
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
#[must_use = "a decision that is ignored limits nothing"]
pub struct Decision {
    policy: PolicyName,
    limit: u64,
    remaining: u64,
    reset_after: Nanos,
    next_after: Nanos,
    /// The delay of an allowed request, or the wait of a denied one.
    wait: Nanos,
    at: Timestamp,
    /// The [`Verdict`] without its length of time.
    answer: Answer,
    basis: Basis,
}

/// What a decision is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Basis {
    Store,
    /// A share of the limit, metered in the process while the store cannot answer.
    Fallback,
    /// The request was not metered, because the store has failed.
    Unmetered,
    /// The policy was not evaluated, and nothing has failed.
    NotAsked,
}

/// Whether a request is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: a request is allowed or denied, and each is handled by every caller.
pub enum Verdict {
    /// The request is allowed after `delay`.
    Allow {
        /// How long to wait before the request proceeds: zero, except in a [queue](crate::Strategy::queues).
        delay: Duration,
    },
    /// The request is denied, and nothing is charged.
    Deny(Retry),
}

impl Decision {
    /// A decision under `policy` at the instant `at` of the store's clock.
    #[inline]
    pub fn new(policy: &Policy, at: Timestamp, snapshot: Snapshot) -> Self {
        let Snapshot { limit, remaining, reset_after, next_after, retry, delay, is_blocked } = snapshot;
        if policy.is_unlimited() && !is_blocked {
            return Self::unlimited(policy, at);
        }
        let (answer, wait) = match retry {
            None => (Answer::Allow, delay),
            Some(Retry::After(wait)) if is_blocked => (Answer::Blocked, wait),
            Some(Retry::After(wait)) => (Answer::RetryAfter, wait),
            Some(Retry::Unknown) => (Answer::RetryUnknown, Duration::ZERO),
            Some(Retry::Never) => (Answer::RetryNever, Duration::ZERO),
        };
        Self {
            policy: policy.name().clone(),
            limit,
            remaining,
            reset_after: Nanos::new(reset_after),
            next_after: Nanos::new(next_after),
            wait: Nanos::new(wait),
            at,
            answer,
            basis: Basis::Store,
        }
    }

    /// Like [`Decision::new`], with the figures as they were computed.
    #[inline]
    pub(crate) fn with_figures(policy: &Policy, at: Timestamp, figures: Figures) -> Self {
        let Figures { limit, remaining, reset_after, next_after, wait, answer } = figures;
        Self {
            policy: policy.name().clone(),
            limit,
            remaining,
            reset_after: Nanos::from_micros(reset_after),
            next_after: Nanos::from_micros(next_after),
            wait: Nanos::from_micros(wait),
            at,
            answer,
            basis: Basis::Store,
        }
    }

    /// A decision that allows a request because no store was asked, or the store could not answer. It reports the full
    /// limit as remaining.
    pub fn degraded(policy: &Policy, at: Timestamp) -> Self {
        if policy.is_unlimited() {
            return Self::unlimited(policy, at);
        }
        Self { basis: Basis::Unmetered, ..Self::full(policy, at) }
    }

    /// The decision of a policy that is [unlimited](Policy::is_unlimited): it allows the request, and nothing is charged. It is neither
    /// [metered](Decision::is_metered) nor [degraded](Decision::is_degraded), and its limit and what remains are those of
    /// [`Quota::UNLIMITED`](crate::Quota::UNLIMITED).
    pub fn unlimited(policy: &Policy, at: Timestamp) -> Self {
        let limit = Quota::UNLIMITED.limit();
        Self { limit, remaining: limit, basis: Basis::NotAsked, ..Self::full(policy, at) }
    }

    /// The full limit, which allows the request.
    fn full(policy: &Policy, at: Timestamp) -> Self {
        let limit = policy.strategy().limit();
        let answer = Answer::Allow;
        let figures = Figures { limit, remaining: limit, reset_after: 0, next_after: 0, wait: 0, answer };
        Self::with_figures(policy, at, figures)
    }

    /// The decision of a policy that was not evaluated, because another policy had already denied the request, or because limits
    /// are switched off. It allows the request, reports the full limit as remaining, and nothing is charged. It is neither
    /// [metered](Decision::is_metered) nor [degraded](Decision::is_degraded).
    pub fn not_asked(policy: &Policy, at: Timestamp) -> Self {
        Self { basis: Basis::NotAsked, ..Self::degraded(policy, at) }
    }

    /// Marks the decision as made by the fallback while the store cannot answer. Its figures refer to a share of the limit.
    pub fn as_fallback(self) -> Self {
        if self.is_unlimited() { self } else { Self { basis: Basis::Fallback, ..self } }
    }

    /// Whether the policy is [unlimited](Policy::is_unlimited) for the key: it counts nothing.
    pub const fn is_unlimited(&self) -> bool {
        self.limit >= Quota::UNLIMITED.limit()
    }

    /// The figures that the decision was made of.
    pub(crate) const fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: self.limit,
            remaining: self.remaining,
            reset_after: self.reset_after(),
            next_after: self.next_after(),
            retry: self.retry(),
            delay: self.delay(),
            is_blocked: self.is_blocked(),
        }
    }

    /// Whether the request is allowed.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.answer, Answer::Allow)
    }

    /// Whether the request is allowed, and after which wait.
    #[inline]
    pub const fn verdict(&self) -> Verdict {
        match self.answer {
            Answer::Allow => Verdict::Allow { delay: self.wait.get() },
            Answer::RetryAfter | Answer::Blocked => Verdict::Deny(Retry::After(self.wait.get())),
            Answer::RetryUnknown => Verdict::Deny(Retry::Unknown),
            Answer::RetryNever => Verdict::Deny(Retry::Never),
        }
    }

    /// When to retry, if the request was denied.
    #[inline]
    pub const fn retry(&self) -> Option<Retry> {
        match self.verdict() {
            Verdict::Allow { .. } => None,
            Verdict::Deny(retry) => Some(retry),
        }
    }

    /// Whether the request was denied because its key is [blocked](crate::overrides::Block), and not by the quota. The
    /// [wait](Decision::retry) ends with the block, and nothing [remains](Decision::remaining) until then.
    #[inline]
    pub const fn is_blocked(&self) -> bool {
        matches!(self.answer, Answer::Blocked)
    }

    /// How long an allowed request waits before it proceeds; zero for a denied one.
    #[inline]
    pub const fn delay(&self) -> Duration {
        match self.verdict() {
            Verdict::Allow { delay } => delay,
            Verdict::Deny(_) => Duration::ZERO,
        }
    }

    /// The name of the policy.
    #[inline]
    pub const fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// The highest value of [`remaining`](Decision::remaining): the limit of window algorithms, the burst of rate-based ones.
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Units that would be admitted right now, from 0 to [`limit`](Decision::limit).
    #[inline]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The smallest wait after which the full limit is available again; zero for a limit of zero. Whole microseconds.
    #[inline]
    pub const fn reset_after(&self) -> Duration {
        if self.limit == 0 { Duration::ZERO } else { self.reset_after.get() }
    }

    /// The wait until [`remaining`](Decision::remaining) increases; zero if it is at the limit, or if the wait is
    /// [unknown](Retry::Unknown). Whole microseconds.
    #[inline]
    pub const fn next_after(&self) -> Duration {
        if self.limit == 0 { Duration::ZERO } else { self.next_after.get() }
    }

    /// The instant of the decision, on the store's clock.
    #[inline]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether the store could not answer, so that the policy's [failure mode](crate::FailureMode) applies.
    #[inline]
    pub const fn is_degraded(&self) -> bool {
        matches!(self.basis, Basis::Fallback | Basis::Unmetered)
    }

    /// Whether the request is metered, so that the figures are meaningful: by the store or, for a
    /// [degraded](Decision::is_degraded) decision, by the fallback. A policy that does not meter a request allows it.
    #[inline]
    pub const fn is_metered(&self) -> bool {
        matches!(self.basis, Basis::Store | Basis::Fallback)
    }

    /// Returns the decisive one of several decisions on a request: the denial with the longest wait; without a denial, a
    /// [metered](Decision::is_metered) decision, then the least remaining, then the longest reset, then the first. Returns
    /// `None` if `decisions` is empty.
    pub fn decisive<'a>(decisions: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        decisions.into_iter().reduce(|best, next| if next.outranks(best) { next } else { best })
    }

    /// Whether this decision ranks strictly higher than `other`, which comes before it.
    #[inline]
    pub(crate) fn outranks(&self, other: &Self) -> bool {
        let rank = |decision: &Self| {
            let least = core::cmp::Reverse(decision.remaining);
            (decision.retry(), decision.is_metered(), least, decision.reset_after)
        };
        rank(self) > rank(other)
    }

    /// Adds what is decided elsewhere: its limit and, unless this is a denial, what remains of it. For stores that divide limits.
    pub fn with_more(self, limit: u64, remaining: u64) -> Self {
        let remaining = if self.is_allowed() { remaining.min(limit) } else { 0 };
        Self {
            limit: self.limit.saturating_add(limit),
            remaining: self.remaining.saturating_add(remaining),
            ..self
        }
    }

    /// Denies until [`remaining`](Decision::remaining), which is 0, increases.
    pub(crate) fn denied(self) -> Self {
        let wait = Nanos::new(self.next_after());
        let answer = match self.limit {
            0 => Answer::RetryNever,
            _ if wait > Nanos::from_micros(0) => Answer::RetryAfter,
            _ => Answer::RetryUnknown,
        };
        Self { wait, answer, ..self }
    }

    pub(crate) fn delayed_by(&mut self, longest: Duration) {
        if self.is_allowed() {
            self.wait = Nanos::new(longest);
        }
    }
}

#[cfg(test)]
mod tests;
