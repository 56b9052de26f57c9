//! What the services of one layer share.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use portcullis_core::store::{Checks, Outcome, StoreFuture};
use portcullis_core::{Key, Policy, Retry, overrides};
use portcullis_engine::policies::Membership;
use portcullis_engine::{Event, EventKeys, EventKind, EventLog, OverridingError};
use portcullis_identity::{Identity, KeyError, KeyExtractor};
use portcullis_tower::{Charge, CheckBuilder, CheckFuture, Registry};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::closed::ClosedKeys;
use crate::hints::{self, HintSettings};

/// The configuration of a layer.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) registry: Arc<Registry>,
    /// It reads blocks.
    pub(crate) policy: Policy,
    /// Keeps the name of the policy registered.
    pub(crate) _membership: Arc<Membership>,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) at_most: Option<Duration>,
    pub(crate) hints: HintSettings,
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) closed: ClosedKeys,
    log: EventLog,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, closed: ClosedKeys::default(), log: EventLog::default() }
    }

    /// The key of a request. `None` if the extractor exempts it.
    pub(crate) fn key(&self, parts: &Parts) -> Result<Option<Key>, KeyError> {
        let Config { registry, key, .. } = &self.config;
        let mut hasher = registry.secret().hasher();
        match key.extract(parts, &mut hasher.writer())? {
            Identity::Found => Ok(Some(hasher.finish()?)),
            Identity::Exempt => Ok(None),
            Identity::Missing => Err(KeyError::client(format!("it has no key: {}", key.description()))),
        }
    }

    /// Starts to charge a request, which waits for its slot for at most `at_most`, or as the policy says.
    pub(crate) fn check(&self, key: Key, at_most: Option<Duration>) -> CheckFuture {
        let check = CheckBuilder::new(&self.config.registry, &self.config.policy).by_key(key);
        match at_most {
            Some(at_most) => check.at_most(at_most).into_future(),
            None => check.into_future(),
        }
    }

    /// Starts to ask whether a key is closed. Charges nothing.
    pub(crate) fn look(&self, key: Key) -> StoreFuture<Outcome> {
        let policy = Some(self.registered()).filter(Policy::reads_overrides);
        let policy = policy.unwrap_or_else(|| self.config.policy.clone());
        self.config.registry.store().check(Checks::one(policy, key, 0))
    }

    /// The policy as it is registered now.
    fn registered(&self) -> Policy {
        let Config { registry, policy, .. } = &self.config;
        registry.policy(policy.name()).unwrap_or_else(|| policy.clone())
    }

    /// Refunds a request that is not sent, in the background.
    pub(crate) fn refund(&self, charge: Charge) {
        let refund = async move {
            // The events tell of it.
            let _ = charge.refund().await;
        };
        match self.config.registry.engine().backlog.task_permit() {
            Ok(permit) => drop(permit.spawn(refund)),
            Err(_) => self.emit(None, EventKind::RefundDropped),
        }
    }

    pub(crate) fn emit(&self, key: Option<Key>, kind: EventKind<'_>) {
        let engine = self.config.registry.engine();
        let event = Event::new(&[], kind);
        let key = key.filter(|_| engine.observers().want_fingerprints());
        let event = match key {
            Some(key) => event.with_keys(EventKeys::One(self.config.policy.name(), key)),
            None => event,
        };
        engine.emit(&self.log, &event);
    }

    /// Reads an answer. If it closes the key, it does so here at once, and returns what ends when the store knows it as well.
    pub(crate) fn observe(
        self: &Arc<Self>,
        key: Key,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<oneshot::Receiver<()>> {
        let policy = self.config.policy.name();
        let reading = hints::read(&self.config.hints, status, headers, SystemTime::now);
        for header in &reading.ignored {
            self.emit(Some(key), EventKind::OutgoingHintIgnored { policy, header: header.as_str() });
        }
        let length = reading.closed_for?;
        let now = Instant::now();
        // A length is at most that of the longest block, 2^51 microseconds.
        self.closed.close(key, now.checked_add(length)?, now);
        let is_capped = reading.is_capped;
        self.emit(Some(key), EventKind::OutgoingClosed { policy, length, is_capped });
        let Ok(permit) = self.config.registry.engine().backlog.task_permit() else {
            self.emit(Some(key), EventKind::OutgoingNotShared { policy });
            return None;
        };
        let (done, receiver) = oneshot::channel();
        let shared = Arc::clone(self);
        permit.spawn(async move {
            shared.share(key, length).await;
            // The caller may have gone.
            let _ = done.send(());
        });
        Some(receiver)
    }

    /// Closes a key in the store, for all processes.
    async fn share(&self, key: Key, length: Duration) {
        if self.try_share(key, length).await.is_err() {
            self.emit(Some(key), EventKind::OutgoingNotShared { policy: self.config.policy.name() });
        }
    }

    /// Blocks the key, unless it is blocked for longer already.
    async fn try_share(&self, key: Key, length: Duration) -> Result<(), OverridingError> {
        let (policy, store) = (self.registered(), self.config.registry.store());
        overrides::validate_block(&policy, length)?;
        let known = store.check(Checks::one(policy.clone(), key, 0)).await?;
        if blocked_for(&known).is_some_and(|left| left >= length) {
            return Ok(());
        }
        Ok(store.block(&policy, key, length).await?)
    }
}

/// For how long the key of a decision is blocked.
pub(crate) fn blocked_for(outcome: &Outcome) -> Option<Duration> {
    let decision = outcome.decision();
    match decision.retry() {
        Some(Retry::After(left)) if decision.is_blocked() => Some(left),
        _ => None,
    }
}
