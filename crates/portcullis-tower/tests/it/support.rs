//! A store for tests: state in a map, decided by the algorithms of the core.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use portcullis_core::algorithm::State;
use portcullis_core::overrides::{Block, LockOut};
use portcullis_core::store::protocol::{self, LoadedState};
use portcullis_core::store::{Checks, Outcome, ReadyCheck, Renewal, Renewed, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind, Timestamp,
};
use portcullis_tower::{LayerError, Limit, RateLimitLayer, Registry};

#[derive(Default)]
pub(crate) struct TestStore {
    pub(crate) micros: AtomicU64,
    pub(crate) mode: Mutex<Mode>,
    pub(crate) asked: AtomicUsize,
    pub(crate) is_full: AtomicBool,
    /// The calls of `settle`.
    pub(crate) settlements: AtomicUsize,
    /// The calls of `renew`.
    pub(crate) renewals: AtomicUsize,
    /// The calls of `record_denials`.
    pub(crate) reports: AtomicUsize,
    states: Mutex<HashMap<(String, u128), State>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Answers at once.
    #[default]
    Ready,
    /// Answers when it is polled again.
    Later,
    /// Never answers.
    Never,
    /// Fails at once.
    Down,
    /// Fails when it is polled again.
    DownLater,
    /// Fails at once because it is overloaded.
    Overloaded,
    /// Decides, and loses the answer.
    Lost,
    /// Fails when it is polled again, because calls sent later were answered first.
    OvertakenLater,
    /// Denies with a remembered denial.
    Remembering,
}

fn id(policy: &Policy, key: Key) -> (String, u128) {
    (policy.name().to_string(), key.fingerprint())
}

impl TestStore {
    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn decide(&self, checks: Checks) -> Outcome {
        let ids = checks.iter().map(|check| id(&check.policy, check.key)).collect();
        self.with_states(ids, |now, states| protocol::check(checks, now, states))
    }

    fn correct(&self, receipt: Receipt, cost: u64) -> Settlement {
        let ids = vec![id(receipt.policy(), receipt.key())];
        self.with_states(ids, |now, states| protocol::settle(receipt, cost, now, states))
    }

    fn extend(&self, renewal: &Renewal) -> Renewed {
        let ids = vec![id(renewal.policy(), renewal.key())];
        self.with_states(ids, |now, states| protocol::renew(renewal, now, states))
    }

    fn with_states<T>(
        &self,
        ids: Vec<(String, u128)>,
        decide: impl FnOnce(Timestamp, &mut [LoadedState]) -> T,
    ) -> T {
        let now = Timestamp::from_micros(self.micros.load(Ordering::Relaxed));
        let mut held = self.states.lock().unwrap();
        let mut states: Vec<_> = ids.iter().map(|id| LoadedState::new(held.remove(id))).collect();
        let answer = decide(now, &mut states);
        for (id, state) in ids.into_iter().zip(&states) {
            held.extend(state.state().cloned().map(|state| (id, state)));
        }
        answer
    }

    /// Answers in the current mode.
    fn answer<T: Send + 'static>(&self, ask: impl FnOnce(&Self) -> T) -> StoreFuture<T> {
        let mode = *self.mode.lock().unwrap();
        let answer = match mode {
            Mode::Down | Mode::DownLater => {
                Err(StoreError::new(StoreErrorKind::Unavailable, "the store is down"))
            }
            Mode::Overloaded => Err(StoreError::new(StoreErrorKind::Overloaded, "too many calls wait")),
            Mode::OvertakenLater => Err(StoreError::new(StoreErrorKind::Overtaken, "no reply in time")),
            Mode::Lost => {
                drop(ask(self));
                Err(StoreError::new(StoreErrorKind::TimedOut, "no reply in time"))
            }
            _ => Ok(ask(self)),
        };
        match mode {
            Mode::Ready | Mode::Down | Mode::Lost | Mode::Overloaded | Mode::Remembering => {
                StoreFuture::ready(answer)
            }
            Mode::Never => StoreFuture::boxed(std::future::pending()),
            Mode::Later | Mode::DownLater | Mode::OvertakenLater => StoreFuture::boxed(async {
                tokio::task::yield_now().await;
                answer
            }),
        }
    }
}

impl Store for TestStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        if *self.mode.lock().unwrap() == Mode::Remembering {
            let check = checks.iter().next().unwrap().clone();
            let (now, strategy) = (Timestamp::from_micros(0), *check.policy.strategy());
            let mut state = None;
            strategy.charge(&mut state, now, strategy.limit());
            let snapshot = strategy.snapshot(state.as_ref(), now, check.cost, false);
            return StoreFuture::ready(Ok(Outcome::remembered(check, now, snapshot).unwrap()));
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer(|store| store.decide(checks))
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        let is_ready = matches!(*self.mode.lock().unwrap(), Mode::Ready | Mode::Down | Mode::Overloaded);
        let answer =
            is_ready.then(|| self.check(Checks::one(policy.clone(), key, cost)).into_ready().unwrap())?;
        Some(answer.map(|outcome| ReadyCheck {
            decision: outcome.decision().clone(),
            position: outcome.results().next().unwrap().position,
        }))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.answer(|store| store.correct(receipt, 0).decision)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.settlements.fetch_add(1, Ordering::Relaxed);
        self.answer(|store| store.correct(receipt, cost))
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.answer(|store| renewals.iter().map(|renewal| store.extend(renewal)).collect())
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unimplemented!("no layer resets")
    }

    fn record_denials(&self, _: &Policy, _: Key, _: u32, _: &LockOut) -> StoreFuture<Option<Block>> {
        self.reports.fetch_add(1, Ordering::Relaxed);
        StoreFuture::ready(Ok(None))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        if self.is_full.load(Ordering::Relaxed) {
            let message = format!("policy {} does not fit", policy.name());
            return Err(StoreError::new(StoreErrorKind::Unsupported, message));
        }
        Ok(())
    }
}

pub(crate) fn registry() -> Arc<Registry> {
    registry_of(Arc::default())
}

pub(crate) fn registry_of(store: Arc<TestStore>) -> Arc<Registry> {
    Arc::new(Registry::new(store, Secret::published()))
}

/// The only mistake of a layer with these limits.
pub(crate) fn mistake(registry: &Arc<Registry>, limits: impl IntoIterator<Item = Limit>) -> LayerError {
    let errors: Vec<_> =
        RateLimitLayer::try_new(Arc::clone(registry), limits).unwrap_err().into_iter().collect();
    let [error] = errors.try_into().unwrap();
    error
}

/// The message of a panic.
pub(crate) fn panic_of<T>(make: impl FnOnce() -> T) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)).err().unwrap();
    *panic.downcast::<String>().unwrap()
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}
