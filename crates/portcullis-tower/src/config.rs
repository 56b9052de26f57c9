//! The configuration of a layer: from a request to the checks for the store, and from its answer to a response.

mod layer_policy;
mod nesting;
mod plan;
mod preflight;
mod resolved_key;
mod shadow_checks;
mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, StoreFuture};
use portcullis_core::{Decision, Key, Receipt, Settlement, StoreError};

use crate::Registry;
use crate::answer::Answers;
use crate::event::{Event, EventKind, EventLog, Observer as _, Outage};
use crate::queues::Queues;
use crate::waiters::WaitPermit;

pub(crate) use layer_policy::LayerPolicy;
pub use layer_policy::OnMissing;
pub(crate) use plan::{OnStoreFailure, Plan};
pub(crate) use resolved_key::{KeySource, PendingLookup};
pub(crate) use shadow_checks::{PendingShadowChecks, ShadowChecks};
pub(crate) use verdict::Passed;

/// The policies and options of a layer. It has at least one policy.
#[derive(Clone)]
pub(crate) struct LayerConfig {
    registry: Arc<Registry>,
    policies: Vec<LayerPolicy>,
    answers: Answers,
    limits_preflights: bool,
    lookup_deadline: Duration,
    ready_deadline: Duration,
    log: EventLog,
    outage: Outage,
}

impl LayerConfig {
    pub(crate) fn new(registry: Arc<Registry>, first: LayerPolicy) -> Self {
        let answers = registry.default_answers();
        let mut config = Self {
            registry,
            policies: vec![first],
            answers,
            limits_preflights: false,
            lookup_deadline: LOOKUP_DEADLINE,
            ready_deadline: READY_DEADLINE,
            log: EventLog::default(),
            outage: Outage::default(),
        };
        config.render();
        config
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, LayerPolicy> {
        self.policies.iter()
    }

    pub(crate) fn push(&mut self, policy: LayerPolicy) {
        self.policies.push(policy);
        self.render();
    }

    pub(crate) fn change_last(&mut self, change: impl FnOnce(&mut LayerPolicy)) {
        change(self.last_mut());
        self.render();
    }

    pub(crate) fn change_answers(&mut self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.answers);
        self.render();
    }

    pub(crate) fn limit_preflights(&mut self) {
        self.limits_preflights = true;
    }

    pub(crate) fn set_lookup_deadline(&mut self, deadline: Duration) {
        self.lookup_deadline = deadline;
    }

    pub(crate) fn lookup_deadline(&self) -> Duration {
        self.lookup_deadline
    }

    pub(crate) fn set_ready_deadline(&mut self, deadline: Duration) {
        self.ready_deadline = deadline;
    }

    pub(crate) fn ready_deadline(&self) -> Duration {
        self.ready_deadline
    }

    pub(crate) fn queues(&self) -> &Queues {
        self.registry.queues()
    }

    /// Whether a request with these checks would be rejected: requests wait in its queue already, and it would get no permit.
    pub(crate) fn cannot_wait(&self, checks: &Checks) -> bool {
        let cannot_wait = self.registry.waiters().is_full(checks.narrowest_key())
            && self.registry.queues().has_waiters(checks);
        if cannot_wait {
            self.announce(EventKind::TooManyWaiting);
        }
        cannot_wait
    }

    /// Returns a permit to wait for a request that is counted by `key`, unless too many requests wait.
    pub(crate) fn wait_permit(&self, key: Option<Key>) -> Option<WaitPermit> {
        let permit = self.registry.waiters().enter(key);
        if permit.is_none() {
            self.announce(EventKind::TooManyWaiting);
        }
        permit
    }

    pub(crate) fn last_key(&self) -> KeySource {
        self.policies.last().expect(NEVER_EMPTY).key.clone()
    }

    pub(crate) fn ask(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.registry.store().check(checks)
    }

    pub(crate) fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.registry.store().refund(self.registry.as_of_now(receipt))
    }

    /// Announces a refund of `units` by the layer, or its failure.
    pub(crate) fn announce_refund(&self, units: u64, answer: &Result<Decision, StoreError>) {
        match answer {
            Ok(decision) => self.announce(EventKind::Refunded { decision, units }),
            Err(error) => self.announce_store(Some(error)),
        }
    }

    /// Runs refunds of a request whose client has disconnected. Without a runtime, or with too many of them in progress, the
    /// charges stay.
    pub(crate) fn detach(&self, refunds: impl Future<Output = ()> + Send + 'static) {
        if !self.registry.detached().spawn(refunds) {
            self.announce(EventKind::RefundDropped);
        }
    }

    pub(crate) fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.registry.store().settle(self.registry.as_of_now(receipt), cost)
    }

    /// Announces an event to the log and to the observers.
    pub(crate) fn announce(&self, kind: EventKind<'_>) {
        let event = Event::new(&self.policies, kind);
        self.log.on_event(&event);
        self.registry.observers().announce(&event);
    }

    fn last_mut(&mut self) -> &mut LayerPolicy {
        self.policies.last_mut().expect(NEVER_EMPTY)
    }

    fn render(&mut self) {
        self.answers.set_listed(
            self.policies
                .iter()
                .enumerate()
                .filter(|(_, layer_policy)| !layer_policy.is_shadow && !layer_policy.is_unlisted)
                .map(|(index, layer_policy)| (index, &layer_policy.policy)),
        );
    }
}

/// A directory, or the cache in front of it, answers in milliseconds; after a second, many clients have disconnected.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

/// Longer than a healthy service needs, and short enough for a client that still waits.
const READY_DEADLINE: Duration = Duration::from_secs(5);

const NEVER_EMPTY: &str = "a layer has at least one policy";

impl fmt::Debug for LayerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.policies.iter().map(|layer_policy| layer_policy.policy.name())).finish()
    }
}
