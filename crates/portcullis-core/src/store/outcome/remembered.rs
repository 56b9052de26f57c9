//! Denials that are repeated without asking the store.

use super::Outcome;
use crate::algorithm::Snapshot;
use crate::charge::Position;
use crate::store::list::List;
use crate::store::{Check, Checks};
use crate::{Decision, Timestamp};

impl Outcome {
    /// A denial that the store has made a short time ago and would make again. For a decision with several checks it contains
    /// only the check that was denied.
    ///
    /// `at` and `snapshot` refer to the current instant. Returns `None` if the snapshot is not a denial, because an admission
    /// is never repeated.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::store::{Check, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let check = Check { policy: Policy::gcra("pages", Quota::per_minute(1)), key: hasher.finish()?, cost: 1 };
    /// let (strategy, then) = (*check.policy.strategy(), Timestamp::from_micros(0));
    /// let charged = strategy.decide(None, then, 1).after;
    /// let snapshot = |admitted| strategy.snapshot(charged.as_ref(), then, 1, admitted);
    ///
    /// let second = Duration::from_secs(1);
    /// let later = snapshot(false).counted_down(second);
    /// let outcome = Outcome::remembered(check.clone(), then.saturating_add(second), later).ok_or("not a denial")?;
    /// assert!(outcome.is_remembered() && !outcome.is_allowed());
    /// assert!(Outcome::remembered(check, then, snapshot(true)).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remembered(check: Check, at: Timestamp, snapshot: Snapshot) -> Option<Self> {
        snapshot.retry?;
        let decision = Decision::new(&check.policy, at, snapshot);
        Some(Self {
            checks: Checks::one(check.policy, check.key, check.cost),
            decisions: List::One([decision]),
            positions: List::One([Position::default()]),
            decisive_index: 0,
            is_remembered: true,
            is_leased: false,
            fallback: None,
            grants: None,
        })
    }

    /// Whether this [denial](Outcome::remembered) is repeated without asking the store. Such an outcome does not show that
    /// the store is available.
    #[inline]
    pub const fn is_remembered(&self) -> bool {
        self.is_remembered
    }
}
