//! From a request to the question for the store, and from its answer to what becomes of the request.

mod conclude;
mod layer_policy;
mod nesting;
mod plan;
mod preflight;
mod resolved_key;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{Checks, Decision, Key, Outcome, Receipt, Settlement, StoreError, StoreFuture};

use crate::Registry;
use crate::answer::Answers;
use crate::notices::LogOnce;
use crate::queues::Queues;
use crate::waiters::WaitPermit;

pub(crate) use conclude::Passed;
pub(crate) use layer_policy::LayerPolicy;
pub use layer_policy::OnMissing;
pub(crate) use plan::{OnStoreFailure, Plan};
pub(crate) use resolved_key::{KeySource, PendingLookup};
pub(crate) use watch::{ShadowChecks, Watching};

/// Everything a layer knows. Never empty.
#[derive(Clone)]
pub(crate) struct LayerConfig {
    registry: Arc<Registry>,
    list: Vec<LayerPolicy>,
    answers: Answers,
    limits_preflights: bool,
    lookup_deadline: Duration,
    ready_deadline: Duration,
    notices: LogOnce,
}

impl LayerConfig {
    pub(crate) fn new(registry: Arc<Registry>, first: LayerPolicy) -> Self {
        let mut rules = Self {
            registry,
            list: vec![first],
            answers: Answers::new(),
            limits_preflights: false,
            lookup_deadline: LOOKUP_DEADLINE,
            ready_deadline: READY_DEADLINE,
            notices: LogOnce::default(),
        };
        rules.render();
        rules
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, LayerPolicy> {
        self.list.iter()
    }

    pub(crate) fn push(&mut self, rule: LayerPolicy) {
        self.list.push(rule);
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

    /// Whether a request with these checks could only be rejected: requests wait in its queue already, and it may not wait.
    pub(crate) fn has_no_room_to_wait(&self, checks: &Checks) -> bool {
        let has_no_room = self.registry.waiters().is_full(checks.narrowest_key())
            && self.registry.queues().has_waiters(checks);
        if has_no_room {
            self.notices.too_many_wait();
        }
        has_no_room
    }

    /// Lets a request wait that is counted by `key`, if not too many do.
    pub(crate) fn let_wait(&self, key: Option<Key>) -> Option<WaitPermit> {
        let permit = self.registry.waiters().enter(key);
        if permit.is_none() {
            self.notices.too_many_wait();
        }
        permit
    }

    pub(crate) fn last_key(&self) -> KeySource {
        self.list.last().expect(NEVER_EMPTY).key.clone()
    }

    pub(crate) fn ask(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.registry.store().check(checks)
    }

    pub(crate) fn give_back(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.registry.store().refund(self.registry.as_of_now(receipt))
    }

    /// Logs a refund of the layer's own that the store cannot make.
    pub(crate) fn note_refund(&self, answer: &Result<Decision, StoreError>) {
        if let Err(error) = answer {
            self.note_store(Some(error));
        }
    }

    /// Runs refunds of a request whose caller has left. Without a runtime, or with too many of them under way, the charges
    /// stay.
    pub(crate) fn detach(&self, refunds: impl Future<Output = ()> + Send + 'static) {
        if !self.registry.detached().spawn(refunds) {
            self.notices.refund_dropped();
        }
    }

    pub(crate) fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        self.registry.store().settle(self.registry.as_of_now(receipt), cost)
    }

    fn last_mut(&mut self) -> &mut LayerPolicy {
        self.list.last_mut().expect(NEVER_EMPTY)
    }

    fn render(&mut self) {
        self.answers.know(self.list.iter().filter(|rule| !rule.is_shadow).map(|rule| &rule.policy));
    }
}

/// A directory, or the cache in front of it, answers in milliseconds; whoever waits longer has left.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

/// Longer than a service needs that is well, and short enough for a client that still waits.
const READY_DEADLINE: Duration = Duration::from_secs(5);

const NEVER_EMPTY: &str = "a layer has at least one rule";

impl fmt::Debug for LayerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|rule| rule.policy.name())).finish()
    }
}
