// A store for tests and examples, which both include: state in a map, decided by the algorithms of the core.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use portcullis_core::algorithm::State;
use portcullis_core::store::{CheckResult, Checks, Outcome, Run, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind, Timestamp,
};
use portcullis_tower::Registry;

#[derive(Default)]
pub(crate) struct TestStore {
    pub(crate) micros: AtomicU64,
    pub(crate) mode: Mutex<Mode>,
    pub(crate) asked: AtomicUsize,
    pub(crate) is_full: AtomicBool,
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
    /// Fails when it is polled again, because calls sent later were answered first.
    OvertakenLater,
    /// Denies with a remembered denial.
    Remembering,
}

impl TestStore {
    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn decide(&self, checks: Checks) -> Outcome {
        let now = Timestamp::from_micros(self.micros.load(Ordering::Relaxed));
        let mut states = self.states.lock().unwrap();
        let of = |check: &portcullis_core::store::Check| {
            (check.policy.name().to_string(), check.key.fingerprint())
        };
        let evaluation = |check: &portcullis_core::store::Check| {
            check.policy.strategy().evaluate(states.get(&of(check)), now, check.cost)
        };
        let evaluations: Vec<_> = checks.iter().map(evaluation).collect();
        let all = evaluations.iter().all(|evaluation| evaluation.admitted);
        let mut results = Vec::new();
        for (check, evaluation) in checks.iter().zip(evaluations) {
            let strategy = check.policy.strategy();
            let mut state = states.remove(&of(check));
            strategy.conclude(&mut state, now, check.cost, evaluation, all);
            results.push(CheckResult::of(strategy, state.as_ref(), now, check.cost, evaluation.admitted));
            states.extend(state.map(|state| (of(check), state)));
        }
        Outcome::new(checks, now, results).unwrap()
    }

    fn correct(&self, receipt: Receipt, cost: u64) -> Settlement {
        let now = Timestamp::from_micros(self.micros.load(Ordering::Relaxed));
        let policy = receipt.policy().clone();
        let strategy = policy.strategy();
        let mut states = self.states.lock().unwrap();
        let id = (policy.name().to_string(), receipt.key().fingerprint());
        let mut state = states.remove(&id);
        let (mut uncharged, mut run) = (0, None);
        if receipt.missing(cost) > 0 {
            let forced = strategy.force_charge(&mut state, now, receipt.missing(cost));
            uncharged = forced.uncharged;
            run = Some(Run { units: forced.charged, position: strategy.position(state.as_ref(), now) });
        } else {
            strategy.refund(&mut state, now, receipt.refund_to(cost));
        }
        let snapshot = strategy.snapshot(state.as_ref(), now, 0, true);
        states.extend(state.map(|state| (id, state)));
        let receipt = Some(receipt.settled(cost, run, now));
        Settlement { decision: Decision::new(&policy, now, snapshot), uncharged, receipt }
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
            _ => Ok(ask(self)),
        };
        match mode {
            Mode::Ready | Mode::Down | Mode::Overloaded | Mode::Remembering => StoreFuture::ready(answer),
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

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.answer(|store| store.correct(receipt, 0).decision)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.answer(|store| store.correct(receipt, cost))
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unimplemented!("no layer resets")
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
