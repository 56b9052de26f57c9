//! A store that records what it is asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut, Override};
use portcullis_core::store::{
    CallObserver, Checks, Figure, Outcome, ReadyCheck, Renewal, Renewed, Standby, Store, StoreFuture,
};
use portcullis_core::{Clock, Decision, Key, ManualClock, Policy, Quota, Receipt, Settlement, StoreError};

use super::counts::Recorder;

/// A check: a key, an instant and a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Charge {
    /// A part of the fingerprint.
    pub(super) key: u64,
    pub(super) micros: u64,
    pub(super) cost: u64,
}

/// The checks under policies, those of all keys up to a number of checks, then those of a sample of the keys.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) policies: Vec<(Policy, Vec<Charge>)>,
    /// The callers that have the keys.
    names: HashMap<u64, CallerName>,
    kept: usize,
    most: usize,
    halvings: u32,
}

impl Recording {
    pub(super) fn new(most: usize) -> Self {
        Self { policies: Vec::new(), names: HashMap::new(), kept: 0, most, halvings: 0 }
    }

    /// One of how many keys is in the sample.
    pub(super) fn one_in(&self) -> u64 {
        1 << self.halvings
    }

    /// The caller that has a key, as the log shows it.
    pub(super) fn name(&self, key: u64) -> String {
        match self.names.get(&key) {
            Some(CallerName { name, has_others: false }) => name.to_string(),
            Some(CallerName { name, has_others: true }) => format!("{name} and others"),
            None => String::new(),
        }
    }

    pub(super) fn add(&mut self, policy: &Policy, key: Key, micros: u64, cost: u64, caller: &str) {
        // Any 64 bits of a fingerprint are as good as random.
        #[expect(clippy::cast_possible_truncation, reason = "a part of the fingerprint is enough")]
        let key = key.fingerprint() as u64;
        if cost == 0 || !is_sampled(key, self.halvings) {
            return;
        }
        let charge = Charge { key, micros, cost };
        let is_same = |other: &Policy| other.name() == policy.name() && other.strategy() == policy.strategy();
        match self.policies.iter().position(|(other, _)| is_same(other)) {
            Some(index) => self.policies[index].1.push(charge),
            None if self.policies.len() < MAX_POLICIES => self.policies.push((policy.clone(), vec![charge])),
            None => return,
        }
        let caller = caller.char_indices().nth(MAX_NAME).map_or(caller, |(end, _)| &caller[..end]);
        let name =
            self.names.entry(key).or_insert_with(|| CallerName { name: caller.into(), has_others: false });
        name.has_others |= *name.name != *caller;
        self.kept += 1;
        while self.kept > self.most && self.halvings < MAX_HALVINGS {
            self.halvings += 1;
            for (_, charges) in &mut self.policies {
                charges.retain(|charge| is_sampled(charge.key, self.halvings));
            }
            self.names.retain(|key, _| is_sampled(*key, self.halvings));
            self.kept = self.policies.iter().map(|(_, charges)| charges.len()).sum();
        }
        if self.kept > self.most {
            // All charges are of very few keys: the newest are left out.
            if let Some((_, charges)) = self.policies.iter_mut().find(|(other, _)| is_same(other)) {
                self.kept -= usize::from(charges.pop().is_some());
            }
        }
    }
}

/// The caller of a key.
#[derive(Debug)]
struct CallerName {
    /// The first caller.
    name: Box<str>,
    has_others: bool,
}

fn is_sampled(key: u64, halvings: u32) -> bool {
    key.trailing_zeros() >= halvings
}

/// Records the checks of another store.
#[derive(Debug)]
pub(super) struct RecordingStore<S> {
    pub(super) inner: S,
    clock: ManualClock,
    recording: Option<Mutex<Recording>>,
    /// It knows the caller.
    recorder: Recorder,
}

impl<S: Store> RecordingStore<S> {
    pub(super) fn new(
        inner: S,
        clock: ManualClock,
        recording: Option<Recording>,
        recorder: Recorder,
    ) -> Self {
        Self { inner, clock, recording: recording.map(Mutex::new), recorder }
    }

    pub(super) fn recording(&self) -> Option<MutexGuard<'_, Recording>> {
        Some(self.recording.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, checks: &Checks) {
        if let Some(mut recording) = self.recording() {
            let now = self.clock.now().as_micros();
            let mut state = self.recorder.state();
            for check in checks {
                recording.add(&check.policy, check.key, now, check.cost, state.current.caller());
            }
        }
    }
}

/// Defines methods as those of the inner store.
macro_rules! forward_to_inner {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*) => {
        $(fn $name(&self $(, $argument: $type)*) -> $answer {
            self.inner.$name($($argument),*)
        })*
    };
}

impl<S: Store> Store for RecordingStore<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.record(&checks);
        self.inner.check(checks)
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        let answer = self.inner.check_now(policy, key, cost);
        if answer.is_some()
            && let Some(mut recording) = self.recording()
        {
            let mut state = self.recorder.state();
            recording.add(policy, key, self.clock.now().as_micros(), cost, state.current.caller());
        }
        answer
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        self.record(&checks);
        self.inner.check_with(checks, standby)
    }

    forward_to_inner! {
        fn refund(&self, receipt: Receipt) -> StoreFuture<Decision>;
        fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement>;
        fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>>;
        fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()>;
        fn register(&self, policy: &Policy) -> Result<(), StoreError>;
        fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()>;
        fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()>;
        fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()>;
        fn record_denials(&self, policy: &Policy, key: Key, denials: u32, lock_out: &LockOut) -> StoreFuture<Option<Block>>;
        fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override>;
        fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) -> ();
        fn observe_calls(&self, observer: Arc<dyn CallObserver>) -> ();
        fn drain(&self) -> StoreFuture<()>;
    }
}

/// Policies, each with every quota of callers that it has.
const MAX_POLICIES: usize = 1_024;
const MAX_HALVINGS: u32 = 40;
/// The characters of the name of a caller that are kept.
const MAX_NAME: usize = 100;

#[cfg(test)]
mod tests {
    use portcullis_memory::MemoryStore;

    use super::*;

    #[test]
    fn the_figures_of_the_inner_store_are_passed_on() {
        let store = RecordingStore::new(MemoryStore::new(), ManualClock::default(), None, Recorder::new(1));
        let mut names = Vec::new();
        store.figures(&mut |figure| names.push(figure.name));
        assert!(names.contains(&"entries"), "{names:?}");
    }
}
