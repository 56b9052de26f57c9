//! Receipts: proof of charges, for refunds and settlements.

mod encoding;

use core::num::NonZeroU64;

use smallvec::SmallVec;

use crate::charge::Run;
use crate::refund::Refund;
use crate::{Decision, Key, Policy, Strategy, Timestamp};

/// Proof of the charges to one key under one policy. A refund or a settlement consumes it.
///
/// A receipt consists of [runs](Run), one per position: charges at the same position, such as those of one window, form one
/// run. It holds at most [`MAX_RUNS`](Receipt::MAX_RUNS). Beyond that, the run with the lowest position is dropped: its units
/// count as replenished, and a refund does not free them.
///
/// A refund frees what the state still holds:
///
/// - under a rate-based algorithm, per run at most its units, and at most the part of it that lies after now. The part that
///   is replenished was available already and is not freed again;
/// - under a window, the units of a run if its window or slot still counts;
/// - under a log, the stamps of a run that still count;
/// - under a limit on requests in flight, the permits of a run that are still held.
///
/// So collected refunds are worth nothing once their charges are replenished. In any period a rate-based policy admits, net of
/// the refunds of that period's own charges, at most `burst + limit` plus the units that are refunded in that period and
/// were charged before it, within the time in which the full burst is replenished, together with the largest
/// [debt](Policy::allow_debt) if settlements have left one.
///
/// A settlement to a lower cost refunds the newest units first.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a receipt does nothing until it is refunded or settled"]
pub struct Receipt {
    policy: Policy,
    key: Key,
    /// All units that were charged, including those of dropped runs.
    units: u64,
    /// Sorted by position, lowest first. Positions are unique.
    runs: SmallVec<[Run; 1]>,
    at: Timestamp,
    fallback_id: Option<NonZeroU64>,
    if_newest: bool,
}

impl Receipt {
    /// The highest number of runs of a receipt.
    pub const MAX_RUNS: usize = 64;

    pub(crate) fn new(
        policy: Policy,
        key: Key,
        run: Run,
        at: Timestamp,
        fallback_id: Option<NonZeroU64>,
    ) -> Self {
        let mut receipt = Self::blank(policy, key, at).charged_by(fallback_id);
        receipt.add(run);
        receipt.units = run.units;
        receipt
    }

    /// A receipt without charges, for a request of cost 0 that is settled to a higher cost later. `at` is the instant that it
    /// reports.
    ///
    /// ```
    /// use portcullis::{Policy, Quota, Receipt, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let bytes = Policy::fixed_window("bytes", Quota::per_day(1_000_000));
    /// let receipt = Receipt::blank(bytes, hasher.finish()?, Timestamp::EPOCH);
    /// assert_eq!((receipt.cost(), receipt.runs().len()), (0, 0));
    /// assert_eq!(receipt.missing(4_096), 4_096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blank(policy: Policy, key: Key, at: Timestamp) -> Self {
        Self { policy, key, units: 0, runs: SmallVec::new(), at, fallback_id: None, if_newest: false }
    }

    /// A receipt of units in the window of `at`, for charges whose receipts were not kept. A refund gives back what the window still
    /// holds of them.
    ///
    /// ```
    /// use portcullis::{Policy, Quota, Receipt, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let hits = Policy::fixed_window("hits", Quota::per_minute(60));
    /// let receipt = Receipt::of_window(hits, hasher.finish()?, 5, Timestamp::EPOCH);
    /// assert_eq!((receipt.cost(), receipt.runs().len()), (5, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_window(policy: Policy, key: Key, units: u64, at: Timestamp) -> Self {
        let mut state = None;
        policy.strategy().charge(&mut state, at, units);
        let position = policy.strategy().position(state.as_ref(), at);
        Self::new(policy, key, Run { units, position }, at, None)
    }

    /// The policy that was charged.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The key that was charged.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The units that were charged, including those of dropped runs.
    pub const fn cost(&self) -> u64 {
        self.units
    }

    /// The instant of the last charge, on the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The charged units by position, lowest first: at most [`MAX_RUNS`](Receipt::MAX_RUNS), empty if nothing was charged.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The id of the fallback that was charged because the store could not answer, unique in the process; `None` if the
    /// store was charged. At the store itself such a receipt would refund the charge of another request.
    pub const fn fallback_id(&self) -> Option<NonZeroU64> {
        self.fallback_id
    }

    /// Makes the receipt one for a charge to this fallback, or to the store if `None`.
    pub fn charged_by(self, fallback_id: Option<NonZeroU64>) -> Self {
        Self { fallback_id, ..self }
    }

    /// Replaces the policy, for a quota that has changed since the charge.
    ///
    /// Returns the receipt unchanged if `policy` has another name or another strategy, or a strategy of another
    /// [structure](crate::store::Structure), such as a longer window: its state has another key.
    pub fn with_policy(self, policy: &Policy) -> Self {
        if same_states(policy, &self.policy) { Self { policy: policy.clone(), ..self } } else { self }
    }

    /// Limits the receipt to the newest charge of the key: a refund frees a run only if no later charge builds on it, that is, if
    /// the level ends where the run does.
    ///
    /// For a request that leaves the queue of a leaky bucket. The slots of the requests behind it are reserved already, so
    /// freeing a slot in the middle would let two requests proceed at once. Has no effect under windows and logs.
    pub fn if_newest(self) -> Self {
        Self { if_newest: true, ..self }
    }

    /// A second receipt for the same charges, kept to repeat a refund or a settlement that the store
    /// [certainly did not make](crate::StoreErrorKind::may_repeat). Use only one of the two afterwards: with both, the charges are
    /// refunded twice.
    ///
    /// ```
    /// use portcullis::{Policy, Quota, Receipt, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let tokens = Policy::fixed_window("tokens", Quota::per_day(1_000));
    /// let receipt = Receipt::blank(tokens, hasher.finish()?, Timestamp::EPOCH);
    /// assert_eq!(receipt.copy_for_retry(), receipt);
    /// # Ok::<(), portcullis::key::KeyWriteError>(())
    /// ```
    pub fn copy_for_retry(&self) -> Self {
        Self { policy: self.policy.clone(), runs: self.runs.clone(), ..*self }
    }

    /// Adds the charges of `other`, so that one refund or settlement covers both.
    ///
    /// Returns `other` if it has another policy or key, or was charged elsewhere, for example by a fallback; or, under a rate-based
    /// algorithm, if one of them has the quota of a [grant](Policy::is_granted) and the other has another quota. The order of the two
    /// charges makes no difference, except that the policy of `other` applies.
    #[must_use = "a receipt that cannot be added is returned unused"]
    pub fn absorb(&mut self, other: Self) -> Option<Self> {
        let belongs = self.key == other.key
            && self.fallback_id == other.fallback_id
            && same_states(&self.policy, &other.policy)
            && are_corrected_alike(&self.policy, &other.policy);
        if !belongs {
            return Some(other);
        }
        for run in other.runs {
            self.add(run);
        }
        self.policy = other.policy;
        self.units = self.units.saturating_add(other.units);
        self.at = self.at.max(other.at);
        self.if_newest |= other.if_newest;
        None
    }

    /// What a settlement to `cost` refunds: the newest units. Nothing if at most `cost` was charged; everything for a
    /// refund, which is a settlement to 0.
    pub fn refund_to(&self, cost: u64) -> Refund<'_> {
        let refund = Refund::of(&self.runs).at_most(self.units.saturating_sub(cost));
        if self.if_newest { refund.if_newest() } else { refund }
    }

    /// The units that a settlement to `cost` charges in addition.
    pub const fn missing(&self, cost: u64) -> u64 {
        self.policy.units(cost).saturating_sub(self.units)
    }

    /// The receipt after a settlement to `cost`: without the units that it [refunds](Receipt::refund_to), and with the run
    /// that it has charged at `now`, if there is one. For stores.
    pub fn settled(mut self, cost: u64, charged: Option<Run>, now: Timestamp) -> Self {
        let surplus = self.units.saturating_sub(cost);
        self.units = self.units.saturating_sub(surplus);
        let mut left = surplus;
        while left > 0
            && let Some(newest) = self.runs.last_mut()
        {
            let taken = newest.units.min(left);
            newest.units = newest.units.saturating_sub(taken);
            if let Strategy::InFlight(_) = self.policy.strategy() {
                // Permits are released by their serial numbers, and those that are left have lower ones.
                newest.position = self.policy.strategy().position_before(newest.position, taken);
            }
            left = left.saturating_sub(taken);
            if newest.units == 0 {
                self.runs.pop();
            }
        }
        if let Some(run) = charged.filter(|run| run.units > 0) {
            self.add(run);
            self.units = self.units.saturating_add(run.units);
            self.at = now;
        }
        self
    }

    /// Inserts a run in the order of positions.
    fn add(&mut self, run: Run) {
        let index = self.runs.partition_point(|held| held.position <= run.position);
        let same = index.checked_sub(1).and_then(|before| self.runs.get_mut(before));
        if let Some(same) = same.filter(|held| held.position == run.position) {
            same.units = same.units.saturating_add(run.units);
            return;
        }
        if self.runs.len() < Self::MAX_RUNS {
            self.runs.insert(index, run);
        } else if let Some(before) = index.checked_sub(1) {
            self.runs.remove(0);
            self.runs.insert(before, run);
        }
    }
}

/// The result of a settlement.
#[derive(Debug, PartialEq, Eq)]
// Exhaustive: stores build it.
pub struct Settlement {
    /// The policy's decision after the settlement.
    pub decision: Decision,
    /// Units that were not charged because the debt beyond the full limit is bounded: by [`Policy::allow_debt`], by default at one
    /// burst (limit).
    pub uncharged: u64,
    /// The receipt for what is charged now, for another settlement; `None` if charges under several policies were settled.
    pub receipt: Option<Receipt>,
}

/// Whether both policies charge the same states: the quota may differ, the name and the kind and structure of the strategy may not.
pub(crate) fn same_states(policy: &Policy, other: &Policy) -> bool {
    policy.digest() == other.digest() && *policy.name() == *other.name()
}

/// Whether charges under both policies may be corrected under one. At a rate, a unit takes as long as the quota says, so that one that
/// was charged under a grant has to be corrected under it. Windows and logs count units.
fn are_corrected_alike(policy: &Policy, other: &Policy) -> bool {
    let is_at_a_rate =
        matches!(policy.strategy(), Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_));
    !is_at_a_rate || !policy.is_granted() && !other.is_granted() || policy.strategy() == other.strategy()
}

#[cfg(test)]
mod tests;
