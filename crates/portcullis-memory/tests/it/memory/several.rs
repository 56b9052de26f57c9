//! Decisions on several checks, beside the same decisions on states that the protocol keeps in a list.

use std::collections::HashMap;
use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::store::protocol::{self, LoadedState};
use portcullis_core::store::{Checks, ReadyCheck};
use portcullis_core::{Clock as _, Policy, PolicyName, Quota, Retry};
use portcullis_memory::MemoryStore;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Hand, MINUTE, SECOND, check, key};

const HOUR: Policy = Policy::sliding_window("hour", Quota::per_hour(20));
const QUEUE: Policy = Policy::leaky_bucket("queue", Quota::per_second(2).burst(5));
const POLICIES: [Policy; 4] = [SECOND, MINUTE, HOUR, QUEUE];
const NAMES: [&str; 2] = ["ada", "grace"];

/// A call: the seconds that the clock is set by, and up to four different checks with their costs.
fn call() -> impl Strategy<Value = (i64, Vec<(usize, usize, u64)>)> {
    let seconds = prop_oneof![4 => Just(0), 4 => 0_i64..5, 1 => 50_i64..70, 1 => -90_i64..0];
    (seconds, vec((0..POLICIES.len(), 0..NAMES.len(), 0_u64..4), 2..5))
}

fn checks(of: &[(usize, usize, u64)]) -> Checks {
    let [(policy, name, cost), more @ ..] = of else { unreachable!("a call has checks") };
    let first = Checks::one(POLICIES[*policy].clone(), key(NAMES[*name]), *cost);
    more.iter().fold(first, |checks, (policy, name, cost)| {
        let more = checks.clone().and(POLICIES[*policy].clone(), key(NAMES[*name]), *cost);
        // A check that there is already.
        more.unwrap_or(checks)
    })
}

proptest! {
    #[test]
    fn several_checks_are_decided_as_by_the_protocol(swept in prop::sample::select(&[0, 1, 20]), calls in vec(call(), 1..60)) {
        let clock = Hand::default();
        let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(swept).build();
        let mut model: HashMap<(PolicyName, u128), State> = HashMap::new();
        let mut now = 10_000_i64;
        for (seconds, of) in calls {
            // A sweep would drop what counts again if the clock is set back.
            now += if swept > 0 { seconds.max(0) } else { seconds };
            clock.set(Duration::from_secs(now.unsigned_abs()));
            let checks = checks(&of);
            let ids: Vec<_> =
                checks.iter().map(|check| (check.policy.name().clone(), check.key.fingerprint())).collect();
            let mut states: Vec<_> = ids.iter().map(|id| LoadedState::new(model.get(id).cloned())).collect();
            let expected = protocol::check(checks.clone(), clock.now(), &mut states[..]);
            for (id, state) in ids.into_iter().zip(states) {
                match state.state() {
                    Some(state) => model.insert(id, state.clone()),
                    None => model.remove(&id),
                };
            }
            let outcome = check(&store, checks);
            prop_assert_eq!(outcome.decisions(), expected.decisions());
            prop_assert_eq!(outcome.decision(), expected.decision());
            let [receipts, expected] = [outcome, expected].map(|outcome| outcome.into_receipts().collect::<Vec<_>>());
            prop_assert_eq!(format!("{receipts:?}"), format!("{expected:?}"));
        }
    }
}

#[test]
fn the_last_room_of_a_shard_is_for_one_of_two_keys() {
    let day = Policy::fixed_window("day", Quota::per_day(5));
    let store = MemoryStore::builder().capacity(1).bytes(4_096).clock(Hand::default()).build();
    let both = Checks::one(day.clone(), key("ada"), 5).and(day, key("grace"), 5).unwrap();
    assert!(check(&store, both.clone()).is_allowed());
    let denied = check(&store, both);
    assert!(matches!(denied.decision().retry(), Some(Retry::After(_))));
    assert_eq!(store.stats().entries, 1);
    assert!(store.stats().overflowed_checks > 0);
}

#[test]
fn a_single_check_is_decided_like_one_of_several() {
    let [alone, together] = [(); 2].map(|()| MemoryStore::builder().clock(Hand::default()).build());
    for cost in [2, 0, 1, 1] {
        let single: Vec<ReadyCheck> = [SECOND, MINUTE]
            .iter()
            .map(|policy| {
                use portcullis_core::store::Store as _;
                alone.check_now(policy, key("ada"), cost).unwrap().unwrap()
            })
            .collect();
        if single.iter().all(|ready| ready.decision.is_allowed()) {
            let both = Checks::one(SECOND, key("ada"), cost).and(MINUTE, key("ada"), cost).unwrap();
            let decided: Vec<_> = check(&together, both).decisions().to_vec();
            assert_eq!(decided, single.into_iter().map(|ready| ready.decision).collect::<Vec<_>>());
        }
    }
}
