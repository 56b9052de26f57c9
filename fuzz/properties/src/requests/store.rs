//! A memory store that records its checks and fails on demand.

use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::store::{Check, Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, StoreError, StoreErrorKind};
use portcullis_memory::MemoryStore;
use portcullis_testing::ManualClock;

/// Its clock does not advance, so that no unit flows back.
#[derive(Debug)]
pub(super) struct Recorder {
    memory: MemoryStore<ManualClock>,
    record: Mutex<(Mode, Record)>,
}

/// How the store answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    AtOnce,
    Later,
    Down,
    Overloaded,
}

/// The calls for one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// The names of the policies that were checked.
    pub(super) checked: Vec<String>,
    pub(super) was_denied: bool,
    /// The charges that were not refunded.
    pub(super) charged: Vec<Charged>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    pub(super) policy: String,
    pub(super) key: Key,
    pub(super) cost: u64,
}

impl Mode {
    pub(super) fn of(number: usize) -> Self {
        match number % 32 {
            28 => Self::Down,
            29 => Self::Overloaded,
            20..28 => Self::Later,
            _ => Self::AtOnce,
        }
    }
}

impl Recorder {
    pub(super) fn begin(&self, mode: Mode) {
        *self.lock() = (mode, Record::default());
    }

    pub(super) fn end(&self) -> Record {
        self.lock().1.clone()
    }

    /// Ignores poisoning: a panic elsewhere fails the run in any case.
    fn lock(&self) -> MutexGuard<'_, (Mode, Record)> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        let memory = MemoryStore::builder().clock(ManualClock::default()).build();
        Self { memory, record: Mutex::default() }
    }
}

impl Store for Recorder {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let mut record = self.lock();
        let (mode, record) = &mut *record;
        let charged = |check: &Check| Charged {
            policy: check.policy.name().to_string(),
            key: check.key,
            cost: check.cost,
        };
        let all: Vec<_> = checks.iter().map(charged).collect();
        record.checked.extend(all.iter().map(|charged| charged.policy.clone()));
        let failure = match mode {
            Mode::AtOnce | Mode::Later => None,
            Mode::Down => Some(StoreErrorKind::Unavailable),
            Mode::Overloaded => Some(StoreErrorKind::Overloaded),
        };
        let answer = match failure {
            Some(kind) => Err(StoreError::new(kind, "injected")),
            None => {
                self.memory.check(checks).into_ready().unwrap_or_else(|_| panic!("memory answers at once"))
            }
        };
        match &answer {
            Ok(outcome) if outcome.is_allowed() => record.charged.extend(all),
            Ok(_) => record.was_denied = true,
            Err(_) => {}
        }
        if *mode != Mode::Later {
            return StoreFuture::ready(answer);
        }
        StoreFuture::boxed(async {
            tokio::task::yield_now().await;
            answer
        })
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        let mut record = self.lock();
        let charged = &mut record.1.charged;
        let refunded = charged.iter().position(|charged| {
            charged.policy == receipt.policy().name().as_str() && charged.key == receipt.key()
        });
        charged.remove(refunded.expect("what is refunded was charged"));
        self.memory.refund(receipt)
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unreachable!("the inner service settles nothing")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unreachable!("no layer resets")
    }
}
