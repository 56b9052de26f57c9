//! A standby costs nothing while the server answers.

use portcullis_core::store::{Checks, Store};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_memory::Fallback;
use tokio::runtime::Runtime;

use super::{RedisStore, Server, key, open};

/// The minimum number of allocations of a check of `policies` on one key, by the store and by the client below it. The client
/// grows its buffers occasionally, and the server's replies differ in length.
fn allocations(runtime: &Runtime, store: &impl Store, policies: &[Policy]) -> u64 {
    let (first, rest) = policies.split_first().unwrap();
    let checks = rest.iter().fold(Checks::one(first.clone(), key(&["ada"]), 1), |checks, policy| {
        checks.and(policy.clone(), key(&["ada"]), 1).unwrap()
    });
    let once = || {
        let asked = checks.clone();
        let mut outcome = None;
        let counted = allocation_counter::measure(|| outcome = Some(runtime.block_on(store.check(asked))));
        assert!(outcome.unwrap().unwrap().is_allowed());
        counted.count_total
    };
    (0..100).map(|_| once()).min().unwrap()
}

fn with_mode(policies: &[Policy], mode: FailureMode) -> Vec<Policy> {
    policies.iter().map(|policy| policy.clone().on_store_failure(mode)).collect()
}

#[test]
fn a_standby_costs_no_allocation_while_redis_answers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(&[]);
    let store: RedisStore = runtime.block_on(open(&server));
    let fallback = Fallback::new(store.clone());
    let quota = Quota::per_hour(1_000_000);
    let four = ["one", "two", "three", "four"].map(|name| Policy::fixed_window(name, quota));
    // A decision of more than two policies stores them on the heap, where a clone would cost an allocation.
    for policies in [&four[..1], &four[..2], &four[..]] {
        let open = with_mode(policies, FailureMode::Open);
        let bare = allocations(&runtime, &store, &open);
        assert_eq!(allocations(&runtime, &fallback, &open), bare, "open, {} policies", open.len());
        let local = allocations(&runtime, &fallback, policies);
        assert_eq!(local, bare, "local, {} policies", open.len());
    }
}

/// An allocator such as that of glibc keeps no blocks of more than 1 032 bytes for the next allocation.
#[test]
fn the_future_of_a_decision_takes_less_than_a_kilobyte() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(&[]);
    let store: RedisStore = runtime.block_on(open(&server));
    let checks = Checks::one(Policy::gcra("one", Quota::per_hour(1)), key(&["ada"]), 1);
    let size = size_of_val(&store.decide(checks, 0, None, None));
    assert!(size < 1_024, "{size} bytes");
}
