//! What the services of one layer share.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use portcullis_core::store::{Checks, Outcome, StoreFuture};
use portcullis_core::{Key, Policy, Retry, overrides};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::closed::ClosedKeys;
use super::hints;
use super::settings::HintSettings;
use crate::policy::ResolvedKey;
use crate::{Charge, CheckBuilder, CheckFuture, KeyError, KeyExtractor, OverridingError, Registry};
use portcullis_engine::policies::Membership;
use portcullis_engine::{Event, EventKeys, EventKind, EventLog, Observer as _};

/// The configuration of a layer.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) registry: Arc<Registry>,
    /// It reads blocks.
    pub(super) policy: Policy,
    /// Keeps the name of the policy registered.
    pub(super) _membership: Arc<Membership>,
    pub(super) key: Arc<dyn KeyExtractor>,
    pub(super) at_most: Option<Duration>,
    pub(super) hints: HintSettings,
}

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) closed: ClosedKeys,
    log: EventLog,
}

impl Shared {
    pub(super) fn new(config: Config) -> Self {
        Self { config, closed: ClosedKeys::default(), log: EventLog::default() }
    }

    /// The key of a request. `None` if the extractor exempts it.
    pub(super) fn key(&self, parts: &Parts) -> Result<Option<Key>, KeyError> {
        match ResolvedKey::find(&*self.config.key, self.config.registry.secret(), parts)? {
            ResolvedKey::Known(key) => Ok(Some(key)),
            ResolvedKey::Exempt => Ok(None),
            ResolvedKey::Missing => {
                Err(KeyError::client(format!("it has no key: {}", self.config.key.description())))
            }
        }
    }

    /// Starts to charge a request, which waits for its slot for at most `at_most`, or as the policy says.
    pub(super) fn check(&self, key: Key, at_most: Option<Duration>) -> CheckFuture {
        let check = CheckBuilder::new(&self.config.registry, &self.config.policy).by_key(key);
        match at_most {
            Some(at_most) => check.at_most(at_most).into_future(),
            None => check.into_future(),
        }
    }

    /// Starts to ask whether a key is closed. Charges nothing.
    pub(super) fn look(&self, key: Key) -> StoreFuture<Outcome> {
        let Config { registry, policy, .. } = &self.config;
        let registered = registry.policy(policy.name()).filter(Policy::reads_overrides);
        registry.store().check(Checks::one(registered.unwrap_or_else(|| policy.clone()), key, 0))
    }

    /// Refunds a request that is not sent, in the background.
    pub(super) fn refund(&self, charge: Charge) {
        let refund = async move {
            // The events tell of it.
            let _ = charge.refund().await;
        };
        match self.config.registry.engine().backlog.task_permit() {
            Ok(permit) => drop(permit.spawn(refund)),
            Err(_) => self.emit(None, EventKind::RefundDropped),
        }
    }

    pub(super) fn emit(&self, key: Option<Key>, kind: EventKind<'_>) {
        let observers = self.config.registry.engine().observers();
        let event = Event::new(&[], kind);
        let key = key.filter(|_| observers.want_fingerprints());
        let event = match key {
            Some(key) => event.with_keys(EventKeys::One(self.config.policy.name(), key)),
            None => event,
        };
        self.log.on_event(&event);
        observers.emit(&event);
    }

    /// Reads an answer. If it closes the key, it does so here at once, and returns what ends when the store knows it as well.
    pub(super) fn observe(
        self: &Arc<Self>,
        key: Key,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<oneshot::Receiver<()>> {
        let policy = self.config.policy.name();
        let reading = hints::read(&self.config.hints, status, headers, SystemTime::now);
        if let Some(header) = &reading.ignored {
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
        let Config { registry, policy, .. } = &self.config;
        let Some(policy) = registry.overridden(policy)? else { return Ok(()) };
        let store = registry.store();
        let known = store.check(Checks::one(policy.clone(), key, 0)).await?;
        if blocked_for(&known).is_some_and(|left| left >= length) {
            return Ok(());
        }
        overrides::validate_block(&policy, length)?;
        Ok(store.block(&policy, key, length).await?)
    }
}

/// For how long the key of a decision is blocked.
pub(super) fn blocked_for(outcome: &Outcome) -> Option<Duration> {
    let decision = outcome.decision();
    match decision.retry() {
        Some(Retry::After(left)) if decision.is_blocked() => Some(left),
        _ => None,
    }
}
