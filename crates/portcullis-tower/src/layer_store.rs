//! Calls the store for the requests of one layer, and emits the resulting events.

use std::slice;
use std::sync::Arc;

use http::Extensions;
use portcullis_core::overrides::{Block, LockOut};
use portcullis_core::store::{Check, Checks, Outcome, ReadyCheck, Renewal, Renewed, StoreFuture};
use portcullis_core::{Decision, Key, Policy, PolicyName, Receipt, Settlement, StoreError, TooMuchWork};
use tokio::runtime::Handle;

use crate::backend::{Backend, corrected_under};
use crate::detached::{NoTask, TaskPermit};
use crate::event::{Event, EventKeys, EventKind, EventLog, Observer as _, Outage, SettlementLoss, Uncounted};
use crate::policy::{LayerPolicy, is_in_flight};

/// Calls the store for one layer and emits the resulting events. Charges keep it after the request, with the configuration.
pub(crate) struct LayerStore {
    backend: Arc<Backend>,
    policies: Vec<LayerPolicy>,
    signals: Arc<Signals>,
}

/// What the layer has logged and seen of the store. It outlasts changes of the policies.
#[derive(Default)]
pub(crate) struct Signals {
    log: EventLog,
    outage: Outage,
}

impl Clone for LayerStore {
    /// A layer that is made from another one has logged nothing, and has not called the store yet.
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.backend), self.policies.clone())
    }
}

impl LayerStore {
    pub(crate) fn new(backend: Arc<Backend>, policies: Vec<LayerPolicy>) -> Self {
        Self { backend, policies, signals: Arc::default() }
    }

    /// The store of the same layer after a change of its policies.
    pub(crate) fn with_policies(&self, policies: Vec<LayerPolicy>) -> Self {
        Self { backend: Arc::clone(&self.backend), policies, signals: Arc::clone(&self.signals) }
    }

    /// The same store for a layer that shares its log with others.
    pub(crate) fn with_signals(&self, signals: Arc<Signals>) -> Self {
        Self { backend: Arc::clone(&self.backend), policies: self.policies.clone(), signals }
    }

    pub(crate) fn policies(&self) -> &[LayerPolicy] {
        &self.policies
    }

    pub(crate) fn policies_mut(&mut self) -> &mut Vec<LayerPolicy> {
        &mut self.policies
    }

    /// Whether both belong to one limiter.
    pub(crate) fn shares_backend(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    pub(crate) fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.backend.store().check(checks)
    }

    #[inline]
    pub(crate) fn check_now(
        &self,
        policy: &Policy,
        key: Key,
        cost: u64,
    ) -> Option<Result<ReadyCheck, StoreError>> {
        self.backend.store().check_now(policy, key, cost)
    }

    /// Reports denials of a key. Returns the block that begins with them.
    pub(crate) fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.backend.store().record_denials(policy, key, denials, lock_out)
    }

    /// The policy as it is registered now: its quota may have changed since a charge.
    pub(crate) fn policy_as_of_now(&self, charged: &Policy) -> Policy {
        match self.backend.as_changed(charged) {
            Some(registered) if self.has_caller_quotas() => self.for_caller(registered),
            Some(registered) => registered,
            None => charged.clone(),
        }
    }

    fn receipt_as_of_now(&self, receipt: Receipt, cost: u64) -> Receipt {
        if self.has_caller_quotas() {
            let policy = self.policy_as_of_now(receipt.policy());
            return corrected_under(&policy, receipt, cost);
        }
        self.backend.as_of_now(receipt, cost)
    }

    /// Whether the policies have the quotas of a caller.
    pub(crate) fn has_caller_quotas(&self) -> bool {
        self.policies.iter().any(|layer_policy| layer_policy.caller_quota.is_some())
    }

    /// A policy as it is registered now, with the quota of the caller.
    fn for_caller(&self, registered: Policy) -> Policy {
        let same = |layer_policy: &&LayerPolicy| layer_policy.policy.name() == registered.name();
        let Some(layer_policy) = self.policies.iter().find(same) else { return registered };
        let policy = layer_policy.for_caller(registered.clone());
        // Another policy may have changed since, so that they would cause too much work together.
        let is_more = policy.strategy().work() > registered.strategy().work();
        if is_more && !self.fit_for_caller() { registered } else { policy }
    }

    /// Whether the policies as they are registered now are within the bounds of a decision, with the quotas of the caller.
    fn fit_for_caller(&self) -> bool {
        let as_of_now = |layer_policy: &LayerPolicy| {
            let registered = self.backend.policies().policy(layer_policy.policy.name());
            registered.map_or_else(|| layer_policy.policy.clone(), |policy| layer_policy.for_caller(policy))
        };
        let policies: Vec<_> = self.policies.iter().map(as_of_now).collect();
        TooMuchWork::check(&policies).is_ok()
    }

    pub(crate) fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.backend.store().refund(self.receipt_as_of_now(receipt, 0))
    }

    pub(crate) fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.backend.store().settle(self.receipt_as_of_now(receipt, cost), cost)
    }

    /// Renews permits of requests in flight, under the policies as they are registered now.
    pub(crate) fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let as_of_now = |renewal: Renewal| match self.backend.as_changed(renewal.policy()) {
            Some(policy) => renewal.with_policy(&policy),
            None => renewal,
        };
        self.backend.store().renew(renewals.into_iter().map(as_of_now).collect())
    }

    /// Runs refunds of a request whose client has disconnected. Without a runtime, or with too many of them in progress, the
    /// charges stay.
    pub(crate) fn detach(&self, refunds: impl Future<Output = ()> + Send + 'static) {
        if !self.backend.detached().spawn(refunds) {
            self.emit(EventKind::RefundDropped);
        }
    }

    /// Charges requests that have looked first, after their response. Their number is bounded by what they hold. Without a runtime
    /// they stay uncharged.
    pub(crate) fn detach_charges(&self, charges: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(charges)),
            Err(_) => self.emit(EventKind::ChargeDropped),
        }
    }

    /// Returns a permit for a task that settles a charge.
    pub(crate) fn task_permit(&self) -> Result<TaskPermit, NoTask> {
        self.backend.detached().permit()
    }

    /// Emits an event to the log and to the observers.
    pub(crate) fn emit(&self, kind: EventKind<'_>) {
        let event = Event::new(&self.policies, kind);
        self.signals.log.on_event(&event);
        self.backend.observers().emit(&event);
    }

    /// The same with the keys of a request or of a charge, if an observer asks for them.
    #[inline]
    pub(crate) fn emit_with<'a>(&'a self, kind: EventKind<'a>, keys: impl FnOnce() -> EventKeys<'a>) {
        if self.wants_keys() { self.emit_keys(kind, keys()) } else { self.emit(kind) }
    }

    #[cold]
    #[inline(never)]
    fn emit_keys<'a>(&'a self, kind: EventKind<'a>, keys: EventKeys<'a>) {
        let event = Event::new(&self.policies, kind).with_keys(keys);
        self.signals.log.on_event(&event);
        self.backend.observers().emit(&event);
    }

    /// The same with the keys that were left in a request.
    #[inline]
    pub(crate) fn emit_for<'a>(&'a self, extensions: &'a Extensions, kind: EventKind<'a>) {
        self.emit_with(kind, || EventKeys::of_request(extensions));
    }

    /// Emits the admission of a request that no enforced policy counts.
    #[inline]
    pub(crate) fn emit_uncounted(&self, uncounted: Uncounted<'_>) {
        if self.backend.observers().are_present() {
            self.emit_uncounted_observed(uncounted);
        }
    }

    #[inline(never)]
    fn emit_uncounted_observed(&self, uncounted: Uncounted<'_>) {
        let keys = match uncounted {
            Uncounted::Request(extensions) if self.wants_keys() => EventKeys::of_request(extensions),
            _ => EventKeys::None,
        };
        let event = Event::new(&self.policies, EventKind::Admitted { decisions: &[] });
        let event = event.with_keys(keys).with_uncounted(uncounted);
        self.backend.observers().emit(&event);
    }

    /// The same for an event that no line is logged for, which is most of them. Without an observer it is one load.
    #[inline]
    pub(crate) fn emit_unlogged<'a>(&'a self, extensions: &'a Extensions, kind: EventKind<'a>) {
        if self.backend.observers().are_present() {
            self.emit_observed(extensions, kind);
        }
    }

    #[inline(never)]
    fn emit_observed<'a>(&'a self, extensions: &'a Extensions, kind: EventKind<'a>) {
        let observers = self.backend.observers();
        let wants_keys = observers.want_fingerprints();
        let keys = if wants_keys { EventKeys::of_request(extensions) } else { EventKeys::None };
        observers.emit(&Event::new(&self.policies, kind).with_keys(keys));
    }

    /// The same with one key.
    pub(crate) fn emit_of<'a>(&'a self, policy: &'a PolicyName, key: Key, kind: EventKind<'a>) {
        self.emit_with(kind, || EventKeys::One(policy, key));
    }

    /// Whether events have the keys of requests.
    #[inline]
    pub(crate) fn wants_keys(&self) -> bool {
        self.backend.observers().want_fingerprints()
    }

    /// Whether an observer asks for each charge.
    #[inline]
    pub(crate) fn wants_charges(&self) -> bool {
        self.backend.observers().want_charges()
    }

    /// Emits what an answer has charged, if an observer asks for it.
    #[inline]
    pub(crate) fn emit_charges(&self, checks: &[Check], decisions: &[Decision]) {
        if self.wants_charges() {
            self.emit_each_charge(checks, decisions);
        }
    }

    #[cold]
    fn emit_each_charge(&self, checks: &[Check], decisions: &[Decision]) {
        if !decisions.iter().all(Decision::is_allowed) {
            return;
        }
        let charged = |(check, decision): &(&Check, &Decision)| check.cost > 0 && decision.is_metered();
        for (check, decision) in checks.iter().zip(decisions).filter(charged) {
            let kind = if is_in_flight(&check.policy) {
                EventKind::PermitAcquired { decision }
            } else {
                EventKind::Charged { decision, units: check.cost }
            };
            self.emit_of(decision.policy(), check.key, kind);
        }
    }

    /// Emits a refund of `units` of a key by the layer, or its failure.
    pub(crate) fn emit_refund(&self, key: Key, units: u64, answer: &Result<Decision, StoreError>) {
        match answer {
            Ok(decision) => self.emit_of(decision.policy(), key, EventKind::Refunded { decision, units }),
            Err(error) => self.emit_store_state(Some(error)),
        }
    }

    /// Emits that a receipt of a key for `before` units was settled at `cost`.
    pub(crate) fn emit_settled(&self, key: Key, before: u64, cost: u64, settlement: &Settlement) {
        let Settlement { decision, uncharged, .. } = settlement;
        let policy = decision.policy();
        let settled = if cost < before {
            EventKind::Refunded { decision, units: before.saturating_sub(cost) }
        } else {
            let units = cost.saturating_sub(before).saturating_sub(*uncharged);
            EventKind::ChargedMore { decisions: slice::from_ref(decision), units }
        };
        self.emit_of(policy, key, settled);
        if *uncharged > 0 {
            self.emit_of(policy, key, EventKind::DebtExceeded { policy, uncharged: *uncharged });
        }
    }

    /// Emits that the permit of a request in flight is released.
    pub(crate) fn emit_released(&self, key: Key, decision: &Decision) {
        self.emit_of(decision.policy(), key, EventKind::PermitReleased { decision });
    }

    /// Emits that the settlement of a receipt at `used` is given up.
    pub(crate) fn emit_lost(&self, receipt: &Receipt, used: u64, cause: SettlementLoss) {
        let policy = receipt.policy().name();
        let lost = EventKind::SettlementLost { policy, reserved: receipt.cost(), used, cause };
        self.emit_of(policy, receipt.key(), lost);
    }

    /// Emits that a call of the layer has failed.
    pub(crate) fn emit_failure(&self, error: &StoreError) {
        self.emit_store_state(Some(error));
    }

    /// Emits a failure of the store, or the end of an outage. For a remembered denial, and from a lease, the store was not
    /// called.
    pub(crate) fn emit_answer(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(outcome) => self.emit_outcome(outcome),
            Err(error) => self.emit_store_state(Some(error)),
        }
    }

    /// The same for an answer of [`check_now`](Self::check_now), which never is that of a fallback.
    #[inline]
    pub(crate) fn emit_ready(&self) {
        if self.signals.outage.is_failing() {
            self.emit_store_state(None);
        }
    }

    /// The same for an answer that is an outcome.
    pub(crate) fn emit_outcome(&self, outcome: &Outcome) {
        if !outcome.is_remembered() && !outcome.is_leased() {
            self.emit_store_state(outcome.failure());
        }
    }

    /// Emits once per outage that a policy is closed now that was open earlier.
    pub(crate) fn emit_expiry(&self, policy: &LayerPolicy) {
        if self.signals.outage.outlast() {
            self.emit(EventKind::OpenForExpired { policy: policy.policy.name() });
        }
    }

    /// Emits failures of the store, overload, and the end of an outage.
    fn emit_store_state(&self, failure: Option<&StoreError>) {
        match failure {
            None => {
                if self.signals.outage.end() {
                    self.emit(EventKind::StoreRecovered);
                }
            }
            Some(error) if error.kind().is_overload() => self.emit(EventKind::StoreOverloaded { error }),
            Some(error) => {
                let is_new = self.signals.outage.begin();
                self.emit(EventKind::StoreFailed { error, is_new });
            }
        }
    }
}
