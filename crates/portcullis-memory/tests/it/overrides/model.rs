//! The store decides as the records and the algorithm do, which are tested in core.

use std::path::Path;

use portcullis_core::Strategy as Algorithm;
use portcullis_core::store::Receipt;
use portcullis_core::{FixedWindow, Gcra, SlidingLog, SlidingWindow};
use portcullis_testing::{OverrideChange, Pure, Scenario, StoreSubject, SystemUnderTest, run};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Check { keys: Vec<usize>, cost: u64 },
    Change { policy: usize, key: usize, change: OverrideChange },
    Refund,
    Reset { policy: usize, key: usize },
}

fn seconds(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_secs)
}

fn step() -> impl Strategy<Value = Step> {
    let lock_out = LockOut::after(3).within(MINUTE).block_for(MINUTE / 2).up_to(2 * MINUTE);
    let change = prop_oneof![
        3 => (1..20_u64, seconds(1..200)).prop_map(|(limit, length)| {
            OverrideChange::Grant(Some((Quota::per_minute(limit), length)))
        }),
        1 => Just(OverrideChange::Grant(None)),
        2 => seconds(1..90).prop_map(OverrideChange::Block),
        1 => Just(OverrideChange::Unblock),
        3 => (0..4_u32).prop_map(move |denials| OverrideChange::Denials(denials, lock_out)),
    ];
    prop_oneof![
        8 => (prop::collection::vec(0..2_usize, 1..4), 0..4_u64).prop_map(|(keys, cost)| Step::Check { keys, cost }),
        5 => (0..3_usize, 0..2_usize, change).prop_map(|(policy, key, change)| Step::Change { policy, key, change }),
        2 => Just(Step::Refund),
        1 => (0..3_usize, 0..2_usize).prop_map(|(policy, key)| Step::Reset { policy, key }),
    ]
}

/// Three policies, of which the last reads no overrides.
fn policies() -> impl Strategy<Value = [Policy; 3]> {
    let five = Quota::per_minute(5);
    let algorithms: [Algorithm; 4] = [
        Algorithm::Gcra(Gcra::new(five.burst(3)).unwrap()),
        Algorithm::FixedWindow(FixedWindow::new(five).unwrap()),
        Algorithm::SlidingWindow(SlidingWindow::with_slots(five, 4).unwrap()),
        Algorithm::SlidingLog(SlidingLog::new(five).unwrap()),
    ];
    let any = || prop::sample::select(algorithms.to_vec());
    (any(), any()).prop_map(move |(first, second)| {
        let of = |name, algorithm| Policy::literal(name, algorithm);
        [
            of("a", first).allow_overrides(),
            of("b", second).allow_overrides(),
            Policy::fixed_window("c", Quota::per_minute(9)),
        ]
    })
}

fn now<T>(future: portcullis_testing::SubjectFuture<'_, T>) -> Result<T, StoreError> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("both answer at once"),
    }
}

fn subject() -> StoreSubject {
    let clock = portcullis_testing::ManualClock::default();
    StoreSubject::new(Arc::new(MemoryStore::builder().clock(clock.clone()).build()), clock)
}

proptest! {
    #[test]
    fn the_store_decides_as_records_and_algorithms_do(
        policies in policies(),
        steps in prop::collection::vec((0..40_u64, step()), 1..60),
    ) {
        let (mut store, mut pure) = (subject(), Pure::new());
        let keys = [key("ada"), key("bob")];
        let mut at = Timestamp::from_micros(1_000_000_000);
        let mut receipts: Vec<(Receipt, Receipt)> = Vec::new();
        for (advance, step) in steps {
            at = at.saturating_add(Duration::from_secs(advance));
            match step {
                Step::Check { keys: each, cost } => {
                    let mut each = each.into_iter().zip(&policies).map(|(index, policy)| (policy.clone(), keys[index]));
                    let (policy, key) = each.next().unwrap();
                    let checks = each.fold(Checks::one(policy, key, cost), |checks, (policy, key)| {
                        checks.and(policy, key, cost).unwrap()
                    });
                    let (got, expected) = (now(store.check(at, checks.clone()))?, now(pure.check(at, checks))?);
                    prop_assert_eq!(&got, &expected);
                    receipts.extend(got.receipts.into_iter().zip(expected.receipts));
                }
                Step::Change { policy, key, change } => {
                    let policy = &policies[policy];
                    let valid = match change {
                        OverrideChange::Grant(Some((quota, length))) => {
                            portcullis_core::overrides::validate_grant(policy, quota, length).is_ok()
                        }
                        _ => policy.reads_overrides(),
                    };
                    let got = now(store.change_override(at, policy, keys[key], change));
                    prop_assert_eq!(got.is_ok(), valid);
                    if valid {
                        let expected = now(pure.change_override(at, policy, keys[key], change));
                        prop_assert_eq!(got, expected);
                    }
                }
                Step::Refund => {
                    if let Some((mine, other)) = receipts.pop() {
                        prop_assert_eq!(now(store.refund(at, mine)), now(pure.refund(at, other)));
                    }
                }
                Step::Reset { policy, key } => {
                    let _ = now(store.reset(at, &policies[policy], keys[key]));
                    let _ = now(pure.reset(at, &policies[policy], keys[key]));
                }
            }
        }
    }
}

#[test]
fn memory_passes_the_corpus_of_overrides() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/overrides/grants_and_blocks.toml");
    let corpus = Scenario::read(file).unwrap();
    let mut store = subject();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(report) = std::pin::pin!(run(corpus.cases(), &mut store)).poll(&mut context)
    else {
        panic!("memory answers at once")
    };
    assert!(report.is_success() && report.skipped().is_empty(), "{report}");
    assert_eq!(report.passed(), corpus.cases().len());
}
