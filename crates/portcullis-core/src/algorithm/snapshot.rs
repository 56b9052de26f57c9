//! The figures of a decision.

use core::time::Duration;

/// The figures of a decision under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: test stores and decorators build it.
pub struct Snapshot {
    /// The highest value of `remaining`.
    pub limit: u64,
    /// Units that would be admitted right now without a [wait](crate::Policy::wait_at_most).
    pub remaining: u64,
    /// The smallest wait after which the state decides like `None`.
    pub reset_after: Duration,
    /// The wait until `remaining` increases; zero if it is at the limit, or if the wait is unknown: see [`Retry::Unknown`].
    pub next_after: Duration,
    /// When to retry a cost that was not admitted.
    pub retry: Option<Retry>,
    /// How long an admitted request waits before it proceeds.
    pub delay: Duration,
    /// Whether the cost was denied because the key is [blocked](crate::overrides::Block), not by the state.
    pub is_blocked: bool,
}

impl Snapshot {
    /// The figures as they are `by` later if nothing is charged or refunded until then. They hold until the next unit becomes
    /// available, which is after [`next_after`](Snapshot::next_after); the delay is not changed.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Policy, Quota, Retry, Timestamp};
    ///
    /// let policy = Policy::gcra("pages", Quota::per_minute(1));
    /// let now = Timestamp::from_micros(0);
    /// let charged = policy.strategy().decide(None, now, 1).after;
    /// let denied = policy.strategy().snapshot(charged.as_ref(), now, 1, false);
    /// let later = denied.counted_down(Duration::from_secs(20));
    /// assert_eq!(later.retry, Some(Retry::After(Duration::from_secs(40))));
    /// assert_eq!(later.reset_after, Duration::from_secs(40));
    /// ```
    #[must_use]
    pub fn counted_down(self, by: Duration) -> Self {
        let retry = self.retry.map(|retry| match retry {
            Retry::After(wait) => Retry::After(wait.saturating_sub(by)),
            Retry::Unknown | Retry::Never => retry,
        });
        Self {
            reset_after: self.reset_after.saturating_sub(by),
            next_after: self.next_after.saturating_sub(by),
            retry,
            ..self
        }
    }

    /// The figures of a key with this state that is blocked for `left`: nothing remains until then, and the key may retry then.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Policy, Quota, Retry, Timestamp};
    ///
    /// let policy = Policy::gcra("pages", Quota::per_minute(1));
    /// let unused = policy.strategy().snapshot(None, Timestamp::EPOCH, 0, true);
    /// let blocked = unused.blocked(Duration::from_secs(9));
    /// assert_eq!((blocked.limit, blocked.remaining), (1, 0));
    /// assert_eq!(blocked.retry, Some(Retry::After(Duration::from_secs(9))));
    /// ```
    #[must_use]
    pub fn blocked(self, left: Duration) -> Self {
        Self {
            limit: self.limit,
            remaining: 0,
            reset_after: self.reset_after.max(left),
            // What the state has left is available at the end of the block, or later if it has nothing left.
            next_after: if self.remaining > 0 { left } else { self.next_after.max(left) },
            retry: Some(Retry::After(left)),
            delay: Duration::ZERO,
            is_blocked: true,
        }
    }
}

/// The figures of a decision as the algorithms compute them: with lengths of time in whole microseconds. A [`Duration`] takes twice
/// the bytes, and a division to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Figures {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after: u64,
    pub(crate) next_after: u64,
    /// The delay of an admitted request, or the wait of a denied one.
    pub(crate) wait: u64,
    pub(crate) answer: Answer,
}

/// Whether a cost was admitted; if not, whether it fits later.
// As large as a word, like `Basis`: two smaller values beside each other are copied as one word, which processors cannot forward from
// the two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Answer {
    Allow,
    RetryAfter,
    RetryUnknown,
    RetryNever,
    /// The key is blocked, which ends after the wait.
    Blocked,
}

impl From<Figures> for Snapshot {
    #[inline]
    fn from(figures: Figures) -> Self {
        let Figures { limit, remaining, reset_after, next_after, wait, answer } = figures;
        let wait = Duration::from_micros(wait);
        let (retry, delay) = match answer {
            Answer::Allow => (None, wait),
            Answer::RetryAfter | Answer::Blocked => (Some(Retry::After(wait)), Duration::ZERO),
            Answer::RetryUnknown => (Some(Retry::Unknown), Duration::ZERO),
            Answer::RetryNever => (Some(Retry::Never), Duration::ZERO),
        };
        Self {
            limit,
            remaining,
            reset_after: Duration::from_micros(reset_after),
            next_after: Duration::from_micros(next_after),
            retry,
            delay,
            is_blocked: false,
        }
    }
}

/// When to retry a denied cost. Values are ordered by the length of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive: a cost fits at some time, known or not, or never.
pub enum Retry {
    /// The cost is admitted after this wait if nothing else is charged meanwhile; one microsecond earlier it is not. It may have a
    /// delay then, where the policy lets requests [wait](crate::Policy::wait_at_most).
    After(Duration),
    /// The cost is admitted when other requests have ended, at an instant that the store cannot know. The answer of a limit on
    /// [requests in flight](crate::InFlight).
    Unknown,
    /// The cost exceeds the number of units that can be admitted at one instant.
    Never,
}
