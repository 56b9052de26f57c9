//! The limits of one layer or check: policies as they are now, the way to the store, and the log of what is seen there.

mod callers;

use std::sync::Arc;

use portcullis_core::outage::Outage;
use portcullis_core::store::{Checks, Outcome, Renewal, Renewed, StoreFuture};
use portcullis_core::{Decision, Policy, Receipt, Settlement, StoreError, TooMuchWork};

use super::Engine;
use crate::event::{Event, EventKeys, EventKind, Route, Uncounted};
#[cfg(feature = "runtime")]
use crate::event::{EventLog, logs_decisions};
use crate::limit::{Limit, is_in_flight};
#[cfg(feature = "runtime")]
use crate::task;
use callers::KnownCallers;
pub use callers::{CallerPolicies, CallerQuotas};

/// Decides requests by their policies, and emits the events. Charges keep it after the request, with the configuration.
#[expect(clippy::struct_excessive_bools, reason = "each is known of the policies once")]
pub struct Limits {
    engine: Arc<Engine>,
    policies: Vec<Limit>,
    signals: Arc<Signals>,
    route: Arc<Route>,
    /// Whether a policy limits requests in flight.
    holds_permits: bool,
    /// Whether a policy is charged when the outcome of the request is known.
    charges_later: bool,
    /// Whether the outcome of a request may change what it was charged.
    corrects: bool,
    /// Whether requests pass that are rejected.
    is_trial: bool,
    known_callers: KnownCallers,
}

/// What was logged, and seen of the store. It outlasts changes of the policies.
#[derive(Default)]
pub struct Signals {
    #[cfg(feature = "runtime")]
    log: EventLog,
    outage: Outage,
}

opaque_debug!(Limits, Signals);

impl Limits {
    /// Limits that have logged nothing, and have not called the store yet.
    pub fn new(engine: Arc<Engine>, policies: Vec<Limit>) -> Self {
        Self::with(engine, policies, Arc::default(), Arc::default(), false)
    }

    fn with(
        engine: Arc<Engine>,
        policies: Vec<Limit>,
        signals: Arc<Signals>,
        route: Arc<Route>,
        is_trial: bool,
    ) -> Self {
        let holds_permits = policies.iter().any(|limit| is_in_flight(&limit.policy));
        let charges_later = policies.iter().any(|limit| limit.charges_later);
        let corrects = policies.iter().any(|limit| limit.corrects);
        let known_callers = KnownCallers::default();
        Self {
            engine,
            policies,
            signals,
            route,
            holds_permits,
            charges_later,
            corrects,
            is_trial,
            known_callers,
        }
    }

    /// Returns these limits with other policies.
    #[must_use]
    pub fn with_policies(&self, policies: Vec<Limit>) -> Self {
        let (engine, signals, route) = self.shared();
        Self::with(engine, policies, signals, route, self.is_trial)
    }

    /// Returns these limits with a log that they share with others.
    #[must_use]
    pub fn with_signals(&self, signals: Arc<Signals>) -> Self {
        let (engine, _, route) = self.shared();
        Self::with(engine, self.policies.clone(), signals, route, self.is_trial)
    }

    /// Returns these limits under another route.
    #[must_use]
    pub fn with_route(&self, route: Route) -> Self {
        let (engine, signals, _) = self.shared();
        Self::with(engine, self.policies.clone(), signals, Arc::new(route), self.is_trial)
    }

    /// Returns these limits for another layer, which has logged nothing, has got no request, and has not called the store yet.
    #[must_use]
    pub fn anew(&self) -> Self {
        self.with_signals(Arc::default()).with_route(self.route.anew())
    }

    /// Returns these limits for a door that lets requests pass which they reject. Events show what policies deny as those of policies
    /// that are [tried out](crate::Mode::Shadow), and none of it counts towards a lock-out.
    #[must_use]
    pub fn in_trial(&self) -> Self {
        let (engine, signals, route) = self.shared();
        Self::with(engine, self.policies.clone(), signals, route, true)
    }

    /// Whether requests pass that are rejected.
    pub(crate) fn is_trial(&self) -> bool {
        self.is_trial
    }

    fn shared(&self) -> (Arc<Engine>, Arc<Signals>, Arc<Route>) {
        (Arc::clone(&self.engine), Arc::clone(&self.signals), Arc::clone(&self.route))
    }

    /// Where the requests come from, for people.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The policies, in the order of their indexes.
    #[inline]
    pub fn policies(&self) -> &[Limit] {
        &self.policies
    }

    /// The engine of the limiter.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether a policy limits requests in flight.
    #[inline]
    pub fn holds_permits(&self) -> bool {
        self.holds_permits
    }

    fn known_callers(&self) -> &KnownCallers {
        &self.known_callers
    }

    #[inline]
    pub(crate) fn charges_later(&self) -> bool {
        self.charges_later
    }

    /// Whether the outcome of a request may change what it was charged.
    #[inline]
    pub fn corrects(&self) -> bool {
        self.corrects
    }

    /// Whether both belong to one limiter.
    pub fn shares_engine(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }

    /// Checks and charges at the store.
    pub fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.engine.check(checks)
    }

    /// The checks of `charged` under the policies as they are registered now, with the quotas of callers. If one has changed since, so
    /// that they would cause too much work together, those of callers are left out.
    pub fn checks_as_of_now(&self, charged: &Checks) -> Checks {
        let now = with_policies(charged, |policy| self.engine.policy_as_of_now(policy));
        if TooMuchWork::check(now.iter().map(|check| &check.policy)).is_ok() {
            return now;
        }
        with_policies(charged, |policy| self.engine.as_changed(policy).unwrap_or_else(|| policy.clone()))
    }

    /// Refunds a charge, under its policy as it is registered now.
    pub fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.engine.store().refund(self.engine.as_of_now(receipt, 0))
    }

    /// Settles a charge at `cost` units, under its policy as it is registered now.
    pub fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.engine.store().settle(self.engine.as_of_now(receipt, cost), cost)
    }

    /// Renews the leases of requests in flight, under the policies as they are registered now.
    pub(crate) fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let as_of_now = |renewal: Renewal| match self.engine.as_changed(renewal.policy()) {
            Some(policy) => renewal.with_policy(&policy),
            None => renewal,
        };
        self.engine.store().renew(renewals.into_iter().map(as_of_now).collect())
    }

    /// Runs refunds of a request whose client has disconnected. Without a runtime, or with too many of them in progress, the
    /// charges stay.
    #[cfg(feature = "runtime")]
    pub fn detach(&self, refunds: impl Future<Output = ()> + Send + 'static) {
        match self.engine.backlog.task_permit() {
            Ok(permit) => drop(permit.spawn(refunds)),
            Err(_) => self.emit(EventKind::RefundDropped, || EventKeys::None),
        }
    }

    /// Charges requests whose outcome is known. Their number is bounded by what they hold. Without a runtime they stay uncharged.
    pub fn detach_charges(&self, charges: impl Future<Output = ()> + Send + 'static) {
        #[cfg(feature = "runtime")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(task::spawn(&runtime, charges));
            return;
        }
        drop(charges);
        self.emit(EventKind::ChargeDropped, || EventKeys::None);
    }

    /// Whether events have the keys of their requests.
    #[inline]
    pub fn wants_keys(&self) -> bool {
        self.engine.observers().want_fingerprints()
    }

    /// Emits an event. `keys` are those of its request.
    #[inline]
    pub fn emit<'a>(&'a self, kind: EventKind<'a>, keys: impl FnOnce() -> EventKeys<'a>) {
        if kind.is_logged() || self.engine.observers().are_present() {
            let keys = if self.wants_keys() { keys() } else { EventKeys::None };
            self.send(self.event(kind).with_keys(keys));
        }
    }

    /// Emits the admission of a request that no policy counts.
    #[inline]
    pub fn emit_uncounted<'a>(&'a self, why: Uncounted<'a>, keys: impl FnOnce() -> EventKeys<'a>) {
        if self.engine.observers().are_present() {
            let keys = if self.wants_keys() { keys() } else { EventKeys::None };
            let event = self.event(EventKind::Admitted { decisions: &[] });
            self.send(event.with_keys(keys).with_uncounted(why));
        }
    }

    #[inline]
    fn event<'a>(&'a self, kind: EventKind<'a>) -> Event<'a> {
        Event::new(&self.policies, kind).on_route(&self.route)
    }

    /// Logs what policies that are tried out have decided and would not reject, where each decision is logged.
    #[cfg(feature = "runtime")]
    pub(crate) fn log_tried(&self, decisions: &[Decision]) {
        if logs_decisions() {
            EventLog::log_tried(&self.event(EventKind::Admitted { decisions }));
        }
    }

    #[inline(never)]
    fn send(&self, event: Event<'_>) {
        if self.is_trial && matches!(event.kind, EventKind::Rejected { .. }) {
            return self.send_tried(event);
        }
        self.emit_now(&event);
    }

    fn emit_now(&self, event: &Event<'_>) {
        #[cfg(feature = "runtime")]
        self.engine.emit(&self.signals.log, event);
        #[cfg(not(feature = "runtime"))]
        self.engine.observers().emit(event);
    }

    /// Emits what a rejection would be without the trial, and that the request is admitted.
    #[cold]
    fn send_tried(&self, event: Event<'_>) {
        let decisions = match event.kind {
            EventKind::Rejected { reason, decisions } if reason.is_of_policies() => decisions,
            _ => return self.emit_now(&event),
        };
        let allowed: Vec<_> = decisions.iter().filter(|decision| decision.is_allowed()).cloned().collect();
        for decision in decisions.iter().filter(|decision| !decision.is_allowed()) {
            self.emit_now(&event.with_kind(EventKind::ShadowWouldReject { decision }));
        }
        self.emit_now(&event.with_kind(EventKind::Admitted { decisions: &allowed }));
    }

    /// Emits that the store fails, or that it answers again.
    pub fn emit_store_state(&self, failure: Option<&StoreError>) {
        let outage = &self.signals.outage;
        #[cfg(feature = "runtime")]
        if failure.is_none() {
            self.engine.store_answered();
        }
        let kind = match failure {
            None if outage.answered(|| self.engine.now()) => EventKind::StoreRecovered,
            None => return,
            Some(error) if error.kind().is_overload() => EventKind::StoreOverloaded { error },
            Some(error) => EventKind::StoreFailed { error, is_new: outage.failed(self.engine.now()) },
        };
        self.emit(kind, || EventKeys::None);
    }

    /// Whether an outage has begun whose end was not emitted or not logged.
    #[inline]
    pub fn is_store_failing(&self) -> bool {
        #[cfg(feature = "runtime")]
        if self.engine.is_store_failing() {
            return true;
        }
        self.signals.outage.is_failing()
    }

    /// The outage as these limits have seen it.
    #[inline]
    pub fn outage(&self) -> &Outage {
        &self.signals.outage
    }
}

fn with_policies(checks: &Checks, policy: impl Fn(&Policy) -> Policy) -> Checks {
    let changed = checks.iter().map(|check| policy(&check.policy)).enumerate();
    changed.fold(checks.clone(), |checks, (index, policy)| checks.with_policy(index, policy))
}
