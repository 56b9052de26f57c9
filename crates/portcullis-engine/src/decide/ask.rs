//! What a request asks for: keys and costs, under the policies of its limits.

use portcullis_core::store::{Check, Checks, Outcome};
use portcullis_core::{FailureMode, Key, Strategy};
use smallvec::SmallVec;

use crate::PolicySet;
use crate::charge::Asked;
use crate::engine::{CallerPolicies, Limits};
use crate::event::{EventKeys, EventKind, FoundKeys};

/// The checks of a request that are made together.
#[derive(Debug, Default)]
pub struct Ask {
    pub(super) enforced: SmallVec<[Asked; 2]>,
    /// Checked one by one if the request is admitted: a denial by one must not change the charges of the others.
    pub(super) shadow: Vec<Asked>,
    /// The policies of the enforced checks.
    pub(super) checked: PolicySet,
    /// The policies whose charges stay if a look-up rejects the request.
    pub stays: PolicySet,
    /// The policies whose checks of cost 0 need a unit that is left.
    pub(super) need_unit: PolicySet,
    /// Whether the request does not wait, because it is rejected whatever the answer is.
    never_waits: bool,
    /// Whether the request has no outcome, by which it could be charged later.
    pub(super) has_no_outcome: bool,
    /// Whether a policy rejects requests while the store cannot answer.
    pub(super) fails_closed: bool,
    /// The quotas of the caller.
    pub(super) callers: CallerPolicies,
    /// The keys of the policies, if an observer asks for fingerprints. `None` otherwise.
    pub(super) keys: Option<Box<FoundKeys>>,
}

/// What a request may wait for after its checks.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    pub(super) in_queue: bool,
    pub(super) for_window: bool,
}

impl Ask {
    /// An ask without checks.
    pub fn new(limits: &Limits) -> Self {
        Self { keys: if limits.wants_keys() { Some(Box::default()) } else { None }, ..Self::default() }
    }

    /// An ask without checks, of a caller with these quotas.
    pub fn of_caller(limits: &Limits, callers: &CallerPolicies) -> Self {
        Self { callers: callers.clone(), ..Self::new(limits) }
    }

    /// The quotas of the caller.
    pub fn callers(&self) -> &CallerPolicies {
        &self.callers
    }

    /// Emits an event with the keys that were found so far.
    pub fn emit(&self, limits: &Limits, kind: EventKind<'_>) {
        limits.emit(kind, || EventKeys::found(self.keys.as_deref()));
    }

    /// The keys that were found so far, for events.
    pub fn keys(&self) -> Option<&FoundKeys> {
        self.keys.as_deref()
    }

    /// Records the key of a policy for events.
    #[inline]
    pub fn found(&mut self, index: usize, key: Key) {
        if let Some(keys) = &mut self.keys {
            keys.add(index, key);
        }
    }

    /// The checks of a caller that has no outcome, by which it could be charged later.
    #[must_use]
    pub fn without_outcome(self) -> Self {
        Self { has_no_outcome: true, ..self }
    }

    /// The checks of a request that is rejected whatever the answer is, with the keys that were found before.
    pub fn of_rejected(found: Self) -> Self {
        Self {
            never_waits: true,
            has_no_outcome: true,
            callers: found.callers,
            keys: found.keys,
            ..Self::default()
        }
    }

    /// Adds the check of the policy at `index`. It is tried out after the others if the policy is not enforced for the key. A policy
    /// that is [unlimited](portcullis_core::Policy::is_unlimited) for the caller is not asked, unless the key may be blocked. Neither is
    /// one that is off for the key.
    pub fn add(&mut self, limits: &Limits, index: usize, key: Key, cost: u64) {
        let limit = &limits.policies()[index];
        if !limit.is_checked_for(key) {
            return;
        }
        self.found(index, key);
        let policy = self.callers.policy(limits, index);
        if policy.is_unlimited() && !policy.reads_overrides() {
            return self.emit(limits, EventKind::Exempt { policy: policy.name() });
        }
        let asked = Asked { index, key, cost };
        if !limit.is_enforced_for(key) {
            self.shadow.push(asked);
            return;
        }
        self.enforce(limits, asked);
    }

    /// Adds the check of the policy at `index` that charges nothing, and needs a unit that is left.
    pub fn add_unit_needed(&mut self, limits: &Limits, index: usize, key: Key) {
        self.need_unit = self.need_unit.union(PolicySet::one(index));
        self.add(limits, index, key, 0);
    }

    /// Adds what another request asks, whose policies begin at `offset` in these limits. It is charged `units` [in place of
    /// one](Asked::cost_of); if they are 0, one has to be left. What both ask of a key under one policy is added up.
    pub fn join(&mut self, limits: &Limits, other: &Self, offset: usize, units: u64) {
        self.callers.join(&other.callers, offset);
        for &own in other.enforced.iter().chain(&other.shadow) {
            let (Asked { index, key, .. }, cost) = (own, own.cost_of(units));
            let name = limits.policies()[offset + index].policy.name();
            let mut asked = self.enforced.iter_mut().chain(&mut self.shadow);
            match asked.find(|asked| asked.is_about(limits, name, key)) {
                Some(same) => same.cost = same.cost.saturating_add(cost),
                None if units == 0 => self.add_unit_needed(limits, offset + index, key),
                None => self.add(limits, offset + index, key, cost),
            }
            if other.stays.contains(index) {
                self.stays = self.stays.union(PolicySet::one(offset + index));
            }
        }
    }

    /// Whether a check, which charges nothing, needs a unit that is left.
    pub(super) fn needs_unit(&self, limits: &Limits, check: &Check) -> bool {
        self.enforced.iter().any(|asked| {
            self.need_unit.contains(asked.index) && asked.is_about(limits, check.policy.name(), check.key)
        })
    }

    fn enforce(&mut self, limits: &Limits, asked: Asked) {
        self.enforced.push(asked);
        self.checked = self.checked.union(PolicySet::one(asked.index));
        self.fails_closed |= asked.policy(limits).failure_mode() != FailureMode::Open;
    }

    /// One of the enforced checks alone.
    pub(super) fn only(&self, asked: Asked) -> Self {
        let callers = self.callers.clone();
        let mut ask =
            Self { need_unit: self.need_unit, fails_closed: self.fails_closed, callers, ..Self::default() };
        ask.enforced.push(asked);
        ask.checked = PolicySet::one(asked.index);
        ask
    }

    /// The checks that are enforced.
    pub fn enforced(&self) -> &[Asked] {
        &self.enforced
    }

    /// The checks that are tried out.
    pub fn tried(&self) -> &[Asked] {
        &self.shadow
    }

    /// Whether no policy counts the request.
    pub fn is_empty(&self) -> bool {
        self.enforced.is_empty() && self.shadow.is_empty()
    }

    /// Whether the answer of the store alone decides, if it needs no wait.
    pub fn is_decided_by_answer(&self, limits: &Limits) -> bool {
        !self.enforced.is_empty()
            && self.shadow.is_empty()
            && !limits.holds_permits()
            && (self.has_no_outcome || !limits.charges_later())
    }

    /// The only check, if it needs no wait, and the caller has no quota of its own.
    #[inline]
    pub(super) fn single(&self, limits: &Limits) -> Option<Asked> {
        let [only] = self.enforced[..] else { return None };
        (!limits.policies()[only.index].may_wait() && self.callers.is_empty()).then_some(only)
    }

    pub(crate) fn checks(&self, limits: &Limits) -> Checks {
        Checks::of(self.enforced.len(), |number| {
            let asked = self.enforced[number];
            (self.callers.policy(limits, asked.index), asked.key, asked.cost)
        })
    }

    /// A denial with the policies of the caller that it leaves out, because it was remembered.
    #[cold]
    pub(super) fn with_left_out(&self, denial: Outcome) -> Outcome {
        let own = self.enforced.iter().filter_map(|asked| self.callers.own(asked.index));
        own.fold(denial, |denial, policy| {
            let is_known = denial.individual_policies().any(|known| known.name() == policy.name());
            if is_known { denial } else { denial.leaving_out(policy.clone()) }
        })
    }

    /// The policies of the enforced checks.
    pub fn checked(&self) -> PolicySet {
        self.checked
    }

    /// The key of the fewest requests: it rejects clients one by one rather than all.
    pub fn narrowest_key(&self) -> Option<Key> {
        let keys = self.enforced.iter().map(|asked| asked.key).filter(|key| !key.is_shared());
        keys.reduce(|best, key| if key.own_parts() > best.own_parts() { key } else { best })
    }

    /// What the request may wait for. A check of cost 0 does not wait.
    pub(super) fn waits(&self, limits: &Limits) -> Waits {
        let mut waits = Waits::default();
        if self.never_waits {
            return waits;
        }
        for asked in self.enforced.iter().filter(|asked| asked.cost > 0) {
            let policy = asked.policy(limits);
            match policy.strategy() {
                Strategy::LeakyBucket(_) => waits.in_queue = true,
                Strategy::TokenBucket(_) | Strategy::Gcra(_) => waits.in_queue |= policy.max_wait().is_some(),
                Strategy::FixedWindow(_)
                | Strategy::CalendarWindow(_)
                | Strategy::SlidingWindow(_)
                | Strategy::SlidingLog(_)
                | Strategy::InFlight(_) => waits.for_window |= policy.max_wait().is_some(),
            }
        }
        waits
    }

    /// Takes the costs of the policies that charge when the outcome is known: their checks ask whether anything is left.
    pub(super) fn take_later_costs(&mut self, limits: &Limits) -> SmallVec<[Asked; 2]> {
        let is_later = |asked: &&mut Asked| asked.cost > 0 && limits.policies()[asked.index].charges_later;
        let taken = self.enforced.iter_mut().filter(is_later);
        taken.map(|asked| Asked { cost: std::mem::take(&mut asked.cost), ..*asked }).collect()
    }
}
