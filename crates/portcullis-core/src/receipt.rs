//! Proofs of charges, and what they free.

mod refund;

use core::num::NonZeroU64;

use smallvec::SmallVec;

pub use refund::Refund;

use crate::{Check, Decision, Key, Policy, Timestamp};

/// Where a charge stands in a state.
///
/// Under a rate-based algorithm (GCRA, token bucket, leaky bucket) this is the end of the level right after the charge: the
/// instant at which all of it has flowed back. Under a window it is the beginning of the window or of the slot, under a log
/// the stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Whole microseconds since the Unix epoch.
    pub micros: u64,
    /// What is beyond them, in units of 1/q microsecond, where q is the [denominator](crate::Meter::denominator) of the
    /// rate; 0 for windows and logs.
    pub remainder: u64,
}

impl Position {
    pub(crate) const fn at(micros: u64) -> Self {
        Self { micros, remainder: 0 }
    }
}

/// Units that were charged to one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// How many, at least 1.
    pub units: u32,
    /// Where they stand.
    pub position: Position,
}

/// Proof of the charges to one key under one policy. It is used up by the refund or settlement that it is for.
///
/// A receipt consists of [runs](Run): one per charge, and one for all charges that stand at the same position, such as those
/// of one window. It holds at most [`MAX_RUNS`](Receipt::MAX_RUNS). When there are more, the one with the lowest position is
/// dropped: its units count as flowed back and are not freed by a refund.
///
/// A refund frees what the state still holds:
///
/// - under a rate-based algorithm, per run at most its units, and at most what of it lies after now. What has flowed back by
///   itself was free already and is not freed again;
/// - under a window, the units of a run if its window or slot still counts;
/// - under a log, the stamps of a run that still count.
///
/// So collected refunds are worth nothing once their charges have flowed back. In any period a rate-based policy admits, net
/// of the refunds of that period's own charges, at most `burst + limit` and the units that are refunded in that period and
/// were charged within one time to full before it; twice that time, where settlements have left a debt.
///
/// A settlement to a lower cost takes the newest units first.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a receipt does nothing until it is refunded or settled"]
pub struct Receipt {
    policy: Policy,
    key: Key,
    /// All that was charged, with the units of runs that were dropped.
    units: u64,
    /// By position, the lowest first; no two at the same one, unless their units do not fit into one number.
    runs: SmallVec<[Run; 1]>,
    at: Timestamp,
    stand_in: Option<NonZeroU64>,
    if_newest: bool,
}

impl Receipt {
    /// The most runs of a receipt.
    pub const MAX_RUNS: usize = 64;

    pub(crate) fn new(check: Check, position: Position, at: Timestamp, stand_in: Option<NonZeroU64>) -> Self {
        let Check { policy, key, cost } = check;
        let mut receipt = Self::blank(policy, key, at).charged_by(stand_in);
        receipt.add(Run { units: cost, position });
        receipt.units = cost.into();
        receipt
    }

    /// A receipt of nothing, for a settlement to charge where the request itself has cost 0. `at` is the instant to report.
    ///
    /// ```
    /// use portcullis_core::{Policy, Quota, Receipt, Secret, Timestamp};
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
        Self { policy, key, units: 0, runs: SmallVec::new(), at, stand_in: None, if_newest: false }
    }

    /// The policy that was charged.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who was charged.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The units that were charged, at most `u32::MAX`; those of dropped runs are among them.
    pub fn cost(&self) -> u32 {
        u32::try_from(self.units).unwrap_or(u32::MAX)
    }

    /// When they were charged, on the store's clock: the last of them, if there were several charges.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// What was charged and where, the lowest position first: at most [`MAX_RUNS`](Receipt::MAX_RUNS), none if nothing was
    /// charged.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What was charged in place of a store that could not answer, by a number that is its own in the process; `None` if
    /// the store was. At the store itself such a receipt would take back somebody else's charge.
    pub const fn stand_in(&self) -> Option<NonZeroU64> {
        self.stand_in
    }

    /// The same proof of a charge to this stand-in, or to the store.
    pub fn charged_by(self, stand_in: Option<NonZeroU64>) -> Self {
        Self { stand_in, ..self }
    }

    /// The same proof under a policy whose quota has changed since.
    ///
    /// Returns the receipt unchanged if `policy` has another name or another strategy, which is another key.
    pub fn with_policy(self, policy: &Policy) -> Self {
        if is_one_state(policy, &self.policy) { Self { policy: policy.clone(), ..self } } else { self }
    }

    /// The same proof, of which only the newest charge of the key can be taken back: a run is freed if no later charge
    /// stands on it, that is if the level ends where the run does.
    ///
    /// It is for a request that leaves the queue of a leaky bucket. The slots of those behind it are reserved already, so
    /// that freeing a slot in the middle would let two requests go at once. Under windows and logs this changes nothing.
    pub fn if_newest(self) -> Self {
        Self { if_newest: true, ..self }
    }

    /// Adds another charge, so that one refund or settlement is for both.
    ///
    /// Returns `other` if it is of another policy or key, or was charged elsewhere: in place of the store, for example. Which
    /// of the two was charged first makes no difference, except that the policy of `other` applies.
    #[must_use = "a receipt that cannot be added is not used up"]
    pub fn absorb(&mut self, other: Self) -> Option<Self> {
        let belongs = self.key == other.key
            && self.stand_in == other.stand_in
            && is_one_state(&self.policy, &other.policy);
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

    /// What a settlement to `cost` takes back: the newest units. Nothing if no more than `cost` was charged; everything for
    /// a refund, which is a settlement to 0.
    pub fn refund_to(&self, cost: u32) -> Refund<'_> {
        let refund = Refund::of(&self.runs).at_most(self.units.saturating_sub(cost.into()));
        if self.if_newest { refund.if_newest() } else { refund }
    }

    /// The units that a settlement to `cost` charges on top.
    pub fn missing(&self, cost: u32) -> u32 {
        let missing = u64::from(cost).saturating_sub(self.units);
        u32::try_from(missing).unwrap_or(u32::MAX)
    }

    /// The receipt of what is charged after a settlement to `cost`: less what it [takes back](Receipt::refund_to), and with
    /// the run that it has charged at `now`, if there is one. For stores.
    pub fn settled(mut self, cost: u32, charged: Option<Run>, now: Timestamp) -> Self {
        let surplus = self.units.saturating_sub(cost.into());
        self.units = self.units.saturating_sub(surplus);
        let mut left = surplus;
        while left > 0
            && let Some(newest) = self.runs.last_mut()
        {
            let taken = newest.units.min(u32::try_from(left).unwrap_or(u32::MAX));
            newest.units = newest.units.saturating_sub(taken);
            left = left.saturating_sub(taken.into());
            if newest.units == 0 {
                self.runs.pop();
            }
        }
        if let Some(run) = charged.filter(|run| run.units > 0) {
            self.add(run);
            self.units = self.units.saturating_add(run.units.into());
            self.at = now;
        }
        self
    }

    /// Puts a run where it belongs by its position.
    fn add(&mut self, run: Run) {
        let index = self.runs.partition_point(|held| held.position <= run.position);
        let same = index.checked_sub(1).and_then(|before| self.runs.get_mut(before));
        if let Some(same) = same.filter(|held| held.position == run.position)
            && let Some(units) = same.units.checked_add(run.units)
        {
            same.units = units;
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

/// The answer to a settlement.
#[derive(Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What the policy has to say afterwards.
    pub decision: Decision,
    /// Units that were not charged because the debt has an end.
    pub uncharged: u32,
    /// The proof of what is charged now, for another correction; `None` if charges under several policies were settled.
    pub receipt: Option<Receipt>,
}

/// Whether the two are charged to the same states: a quota may differ, a name or a kind of strategy may not.
fn is_one_state(policy: &Policy, other: &Policy) -> bool {
    policy.digest() == other.digest() && *policy.name() == *other.name()
}

#[cfg(test)]
mod tests;
