use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use portcullis_core::store::Store as _;
use portcullis_core::{Decision, FailureMode, Policy, Quota, Receipt, StoreErrorKind};
use portcullis_memory::MemoryStore;
use smallvec::smallvec;

use super::*;
use crate::store::tests::key;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A standby that decides everything in one memory store, and counts its decisions.
#[derive(Default)]
struct Memory {
    store: MemoryStore,
    asked: AtomicU64,
    refunded: AtomicU64,
}

impl Standby for Memory {
    fn record(&self, _: &Outcome) {}

    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError> {
        self.asked.fetch_add(1, Relaxed);
        if checks.iter().any(|check| check.policy.failure_mode() == FailureMode::Closed) {
            return Err(failure);
        }
        let counted = self.store.check(checks.clone()).into_ready().unwrap().unwrap();
        Ok(Outcome::from_fallback(checks, Some(&counted), NOW, failure, std::num::NonZeroU64::MIN))
    }

    fn refund(&self, receipt: Receipt) {
        self.refunded.fetch_add(receipt.cost(), Relaxed);
        drop(self.store.refund(receipt));
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// In the decisions of these tests each policy has its own key, slot and index.
const NAMES: [&str; 3] = ["first", "second", "third"];

fn group(index: usize) -> SlotGroup {
    SlotGroup { slot: u16::try_from(index).unwrap(), indices: smallvec![index] }
}

fn policy(index: usize, mode: FailureMode) -> Policy {
    Policy::fixed_window(NAMES[index], Quota::per_week(2)).on_store_failure(mode)
}

fn start(modes: &[FailureMode], standby: Option<&Arc<Memory>>) -> PartialOutcome {
    let checks = modes.iter().enumerate().map(|(index, mode)| Check {
        policy: policy(index, *mode),
        key: key(&[NAMES[index]]),
        cost: 1,
    });
    let standby = standby.cloned().map(|standby| standby as Arc<dyn Standby>);
    PartialOutcome::new(together(checks).unwrap(), standby)
}

fn answer(partial: &mut PartialOutcome, index: usize, used: u64) {
    let policy = policy(index, FailureMode::Open);
    let mut state = None;
    let _ = policy.strategy().force_charge(&mut state, NOW, used);
    let result = CheckResult::of(policy.strategy(), state.as_ref(), NOW, 1, used < 2);
    partial.answered(&group(index), [(NOW, result)]);
}

fn error(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "no answer")
}

fn fail(partial: &mut PartialOutcome, index: usize) {
    partial.failed(&group(index), &error(StoreErrorKind::Unavailable).with_outage(SECOND));
}

/// The policies that deny, or the kind of the error, and whether the charges stay.
fn verdict(partial: &PartialOutcome) -> (Result<Vec<String>, StoreErrorKind>, bool) {
    let answer = partial.answer().map_err(|error| error.kind());
    let denying = answer.map(|outcome| {
        let denying = outcome.decisions().iter().filter(|decision| !decision.is_allowed());
        denying.map(|decision| decision.policy().to_string()).collect()
    });
    (denying, partial.passes())
}

fn allowed() -> (Result<Vec<String>, StoreErrorKind>, bool) {
    (Ok(Vec::new()), true)
}

fn denied(index: usize) -> (Result<Vec<String>, StoreErrorKind>, bool) {
    (Ok(vec![NAMES[index].to_owned()]), false)
}

fn rejected(kind: StoreErrorKind) -> (Result<Vec<String>, StoreErrorKind>, bool) {
    (Err(kind), false)
}

const LOCAL: FailureMode = FailureMode::local(1);
const OPEN: FailureMode = FailureMode::Open;
const CLOSED: FailureMode = FailureMode::Closed;

#[test]
fn held_denial_of_failed_slot_denies() {
    for mode in [LOCAL, OPEN, CLOSED] {
        let memory = Arc::<Memory>::default();
        let mut partial = start(&[LOCAL, mode], Some(&memory));
        answer(&mut partial, 0, 1);
        assert!(partial.unanswered().is_none());
        fail(&mut partial, 1);
        let unanswered = partial.unanswered().unwrap();
        let [check] = unanswered.iter().collect::<Vec<_>>()[..] else { panic!("{unanswered:?}") };
        assert_eq!(check.policy.name().as_str(), NAMES[1]);
        let (strategy, mut state) = (*check.policy.strategy(), None);
        strategy.charge(&mut state, NOW, 2);
        let snapshot = CheckResult::of(&strategy, state.as_ref(), NOW, 1, false).snapshot;
        partial.remembered(Outcome::remembered(check.clone(), NOW, snapshot));
        partial.decide_missing();
        assert_eq!((verdict(&partial), memory.asked.load(Relaxed)), (denied(1), 0), "{mode}");
        assert_eq!(partial.charged().len(), 1, "the charge of the other slot is refunded");
    }
}

#[test]
fn a_failed_slot_is_decided_by_its_failure_mode() {
    let long = FailureMode::OpenFor(2 * SECOND);
    let short = FailureMode::OpenFor(SECOND);
    let unavailable = || rejected(StoreErrorKind::Unavailable);
    for (mode, with_standby, without) in [
        (LOCAL, allowed(), unavailable()),
        (OPEN, allowed(), allowed()),
        (CLOSED, unavailable(), unavailable()),
        (long, allowed(), allowed()),
        // The standby of this test ignores the length of the outage.
        (short, allowed(), unavailable()),
    ] {
        for (has_standby, expected) in [(true, with_standby), (false, without)] {
            // The mode of a policy whose slot answers makes no difference.
            for other in [LOCAL, OPEN, CLOSED] {
                let standby = has_standby.then(Arc::default);
                let mut partial = start(&[other, mode], standby.as_ref());
                answer(&mut partial, 0, 1);
                fail(&mut partial, 1);
                partial.decide_missing();
                assert_eq!(verdict(&partial), expected, "{other} {mode} {has_standby}");
                assert_eq!(partial.charged().len(), 1);
            }
        }
    }
}

#[test]
fn if_all_slots_fail_all_policies_are_decided_together() {
    for (modes, expected) in [
        ([LOCAL, LOCAL], allowed()),
        ([LOCAL, OPEN], allowed()),
        ([LOCAL, CLOSED], rejected(StoreErrorKind::Unavailable)),
        ([OPEN, OPEN], rejected(StoreErrorKind::Unavailable)),
    ] {
        let memory = Arc::default();
        let mut partial = start(&modes, Some(&memory));
        fail(&mut partial, 0);
        fail(&mut partial, 1);
        partial.decide_missing();
        assert_eq!(verdict(&partial), expected, "{modes:?}");
        assert!(memory.asked.load(Relaxed) <= 1, "all or none");
    }
}

#[test]
fn a_denial_stands_despite_failures_and_charges_nothing_locally() {
    for mode in [LOCAL, OPEN, CLOSED] {
        for kind in [StoreErrorKind::Unavailable, StoreErrorKind::TimedOut, StoreErrorKind::Overloaded] {
            let memory = Arc::default();
            let mut partial = start(&[LOCAL, mode], Some(&memory));
            answer(&mut partial, 0, 2);
            partial.failed(&group(1), &error(kind));
            partial.decide_missing();
            assert_eq!(verdict(&partial), denied(0), "{mode} {kind:?}");
            assert_eq!((memory.asked.load(Relaxed), memory.store.stats().entries), (0, 0));
            let outcome = partial.answer().unwrap();
            assert!(!outcome.decision().is_degraded());
            // An overload does not mark a decision as degraded.
            let is_degraded = outcome.decisions()[1].is_degraded();
            assert_eq!(is_degraded, kind != StoreErrorKind::Overloaded, "{kind:?}");
        }
    }
}

#[test]
fn a_local_denial_refunds_the_charges_of_the_slots() {
    let memory = Arc::default();
    for turn in 0..3 {
        let mut partial = start(&[LOCAL, LOCAL], Some(&memory));
        answer(&mut partial, 0, 1);
        fail(&mut partial, 1);
        partial.decide_missing();
        let expected = if turn < 2 { allowed() } else { denied(1) };
        assert_eq!(verdict(&partial), expected, "{turn}");
        let outcome = partial.answer().unwrap();
        assert_eq!(outcome.decisions().iter().map(Decision::is_degraded).collect::<Vec<_>>(), [false, true]);
        assert_eq!(outcome.fallback_id_of(0), None);
        assert!(outcome.fallback_id_of(1).is_some());
        assert_eq!(partial.charged().len(), 1);
        assert_eq!(
            partial.denied_keys().collect::<Vec<_>>(),
            if turn < 2 { vec![] } else { vec![key(&["second"])] }
        );
    }
}

#[test]
fn a_local_charge_is_refunded_if_a_slot_denies() {
    let memory = Arc::<Memory>::default();
    for _ in 0..3 {
        let mut partial = start(&[LOCAL, LOCAL], Some(&memory));
        fail(&mut partial, 0);
        partial.decide_missing();
        assert!(!partial.is_over());
        answer(&mut partial, 1, 2);
        partial.decide_missing();
        assert_eq!(verdict(&partial), denied(1));
        partial.refund_local();
        let outcome = partial.answer().unwrap();
        assert_eq!(outcome.decisions()[0].remaining(), 2, "as it stands after the refund");
        assert!(outcome.decisions()[0].is_degraded());
    }
    assert_eq!(memory.refunded.load(Relaxed), 3);
}

#[test]
fn slots_that_fail_in_sequence_are_decided_in_sequence() {
    let memory = Arc::default();
    let mut partial = start(&[LOCAL, LOCAL, LOCAL], Some(&memory));
    fail(&mut partial, 0);
    partial.decide_missing();
    answer(&mut partial, 1, 1);
    fail(&mut partial, 2);
    partial.decide_missing();
    assert_eq!(verdict(&partial), allowed());
    let receipts: Vec<_> = partial.answer().unwrap().into_receipts().collect();
    let local: Vec<_> = receipts.iter().map(|receipt| receipt.fallback_id().is_some()).collect();
    assert_eq!(local, [true, false, true]);
}

#[test]
fn an_overloaded_slot_rejects_the_decision_in_every_mode() {
    for kind in [StoreErrorKind::Overloaded, StoreErrorKind::Overtaken] {
        for mode in [LOCAL, OPEN, CLOSED, FailureMode::OpenFor(SECOND)] {
            for also_fails in [false, true] {
                let memory = Arc::default();
                let mut partial = start(&[mode, mode, mode], Some(&memory));
                answer(&mut partial, 0, 1);
                partial.failed(&group(1), &error(kind));
                if also_fails {
                    fail(&mut partial, 2);
                } else {
                    answer(&mut partial, 2, 1);
                }
                partial.decide_missing();
                assert_eq!(verdict(&partial), rejected(kind), "{mode} {also_fails}");
                assert_eq!(partial.answer().unwrap_err().outage(), None);
                assert_eq!(partial.charged().len(), if also_fails { 1 } else { 2 });
                assert_eq!(memory.store.stats().entries, 0);
            }
        }
    }
}

#[test]
fn a_slot_that_denies_one_of_its_checks_has_charged_none() {
    let mut partial = start(&[LOCAL, LOCAL, LOCAL], None);
    let fits = |admitted| {
        let policy = policy(0, LOCAL);
        (NOW, CheckResult::of(policy.strategy(), None, NOW, 1, admitted))
    };
    let both = SlotGroup { slot: 7, indices: smallvec![0, 2] };
    partial.answered(&both, [fits(true), fits(false)]);
    answer(&mut partial, 1, 0);
    assert_eq!(partial.charged().into_iter().map(|(index, ..)| index).collect::<Vec<_>>(), [1]);
    partial.refunded(1, NOW, fits(true).1);
    assert!(partial.charged().is_empty());
}

#[test]
fn held_denial_is_a_denial_of_its_key() {
    let mut partial = start(&[OPEN, OPEN, OPEN], None);
    fail(&mut partial, 1);
    let check = partial.checks().iter().nth(1).cloned().unwrap();
    let (strategy, mut state) = (*check.policy.strategy(), None);
    let _ = strategy.force_charge(&mut state, NOW, 2);
    let denied = CheckResult::of(&strategy, state.as_ref(), NOW, 1, false);
    partial.remembered(Outcome::remembered(check.clone(), NOW, denied.snapshot));
    assert_eq!(partial.denied_keys().collect::<Vec<_>>(), [check.key]);
}

#[test]
fn failures_merge_independently_of_their_order() {
    let long = error(StoreErrorKind::Unavailable).with_outage(Duration::from_mins(1));
    let short = error(StoreErrorKind::TimedOut).with_outage(SECOND);
    let mute = error(StoreErrorKind::Failed);
    for errors in [[&long, &short, &mute], [&mute, &short, &long], [&short, &long, &mute]] {
        let merged = errors.into_iter().cloned().reduce(worse_of).unwrap();
        assert_eq!(merged, error(StoreErrorKind::TimedOut).with_outage(Duration::from_mins(1)));
    }
    let overload = error(StoreErrorKind::Overloaded);
    for errors in [[&overload, &short, &long], [&short, &overload, &long], [&long, &short, &overload]] {
        assert_eq!(errors.into_iter().cloned().reduce(worse_of).unwrap(), overload);
    }
}
