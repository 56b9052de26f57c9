//! Denials that are answered without a round trip.

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Decision, FailureMode, Key, Policy, Quota, Secret, StoreErrorKind};
use portcullis_memory::Fallback;
use tokio::task::JoinSet;

use super::{RedisStore, Server, key, open, patient, receipt, remembered};
use crate::connection::tests::waiting::until;

const WEEKLY: Policy = Policy::fixed_window("weekly", Quota::per_week(10));
const OTHER: Policy = Policy::fixed_window("other", Quota::per_week(10));

fn of(policy: &Policy, user: Key, cost: u64) -> Checks {
    Checks::one(policy.clone(), user, cost)
}

/// How many of the checks that are made until an instant the server runs, and how many are made.
async fn trips(server: &Server, store: &RedisStore, checks: &Checks, until: Instant) -> (u64, u64) {
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut asked = 0;
    while Instant::now() < until {
        assert!(!store.check(checks.clone()).await.unwrap().is_allowed());
        asked += 1;
        tokio::task::yield_now().await;
    }
    (server.calls("evalsha"), asked)
}

#[tokio::test]
async fn a_flood_of_one_key_costs_one_round_trip_per_second() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let ada = of(&WEEKLY, key(&["ada"]), 1);
    for _ in 0..10 {
        assert!(store.check(ada.clone()).await.unwrap().is_allowed());
    }
    let (trips, asked) = trips(&server, &store, &ada, Instant::now() + Duration::from_millis(2_500)).await;
    println!("{trips} trips for {asked} checks");
    assert!((2..=4).contains(&trips) && asked > 100 * trips, "{trips} trips for {asked} checks");
    // Other keys have limits of their own.
    assert!(store.check(of(&WEEKLY, key(&["grace"]), 1)).await.unwrap().is_allowed());
}

#[tokio::test]
async fn without_the_memory_every_check_is_a_round_trip() {
    let server = Server::start(&[]);
    let store = patient(server.url()).denial_memory(0).connect().await.unwrap();
    let ada = of(&WEEKLY, key(&["ada"]), 11);
    // The first check loads the script.
    assert!(!store.check(ada.clone()).await.unwrap().is_remembered());
    let (trips, asked) = trips(&server, &store, &ada, Instant::now() + Duration::from_millis(50)).await;
    assert_eq!(trips, asked);
}

#[tokio::test]
async fn a_remembered_denial_names_its_policy_only() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let ada = key(&["ada"]);
    assert!(store.check(of(&WEEKLY, ada, 10)).await.unwrap().is_allowed());
    let both = || of(&OTHER, ada, 1).and(WEEKLY, ada, 1).unwrap();
    let first = store.check(both()).await.unwrap();
    assert_eq!((first.is_remembered(), first.decisions().len()), (false, 2));
    let again = remembered(&store, both).await;
    let policies: Vec<_> = again.decisions().iter().map(|decision| decision.policy().as_str()).collect();
    assert_eq!(policies, ["weekly"]);
    assert_eq!(again.decision().remaining(), first.decision().remaining());
    assert!(again.decision().reset_after() <= first.decision().reset_after());
    // The other policy has denied nothing and was not charged.
    let other = store.check(of(&OTHER, ada, 1)).await.unwrap();
    assert_eq!((other.is_remembered(), other.decision().remaining()), (false, 9));
}

#[tokio::test]
async fn shared_keys_are_always_checked_by_the_server() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let mut hasher = Secret::published().hasher();
    hasher.writer().shared_part("global", b"");
    let global = hasher.finish().unwrap();
    assert!(!store.check(of(&WEEKLY, global, 11)).await.unwrap().is_allowed());
    assert!(!store.check(of(&WEEKLY, global, 11)).await.unwrap().is_remembered());
}

/// Denies `ada`, so that it is remembered.
async fn deny(store: &RedisStore) {
    let _ = remembered(store, || of(&WEEKLY, key(&["ada"]), 1)).await;
}

async fn is_allowed(store: &RedisStore) -> bool {
    store.check(of(&WEEKLY, key(&["ada"]), 1)).await.unwrap().is_allowed()
}

#[tokio::test]
async fn refund_settlement_and_reset_end_a_remembered_denial() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let ten = receipt(&store, &WEEKLY, 10).await;
    deny(&store).await;
    assert_eq!(store.settle(ten, 9).await.unwrap().decision.remaining(), 1);
    let one = store.check(of(&WEEKLY, key(&["ada"]), 1)).await.unwrap();
    assert!(one.is_allowed());
    deny(&store).await;
    let _: Decision = store.refund(one.into_receipts().next().unwrap()).await.unwrap();
    assert!(is_allowed(&store).await);
    deny(&store).await;
    store.reset(&WEEKLY, key(&["ada"])).await.unwrap();
    assert!(is_allowed(&store).await);
}

#[tokio::test]
async fn a_denial_outlasts_a_refund_elsewhere_by_a_second() {
    let server = Server::start(&[]);
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let ten = receipt(&elsewhere, &WEEKLY, 10).await;
    let asked = Instant::now();
    deny(&here).await;
    let _: Decision = elsewhere.refund(ten).await.unwrap();
    assert!(is_allowed(&elsewhere).await);
    while !is_allowed(&here).await {
        assert!(asked.elapsed() < Duration::from_secs(10), "it does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("it lasted {:?}", asked.elapsed());
}

/// After a refund, no client is denied by a request from before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_denial_from_before_a_refund_outlives_it() {
    let server = Server::start(&[]);
    let store = patient(server.url()).connections(3).connect().await.unwrap();
    for round in 0..100 {
        let user = key(&[&round.to_string()]);
        let ten = store.check(of(&WEEKLY, user, 10)).await.unwrap().into_receipts().next().unwrap();
        let mut denied = JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            denied.spawn(async move { store.check(of(&WEEKLY, user, 10)).await.unwrap() });
        }
        let _: Decision = store.refund(ten).await.unwrap();
        // The refund has been answered: only one of the twenty others could charge these units.
        let now = store.check(of(&WEEKLY, user, 10)).await.unwrap();
        let others: Vec<Outcome> = denied.join_all().await;
        let admitted = others.iter().filter(|outcome| outcome.is_allowed()).count();
        assert_eq!(admitted + usize::from(now.is_allowed()), 1, "round {round}");
    }
}

#[tokio::test]
async fn a_denial_outlasts_the_connection_for_a_second() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let _ = receipt(&store, &WEEKLY, 10).await;
    while store.is_connected() {
        let asked = Instant::now();
        let denied = store.check(of(&WEEKLY, key(&["ada"]), 1)).await.unwrap();
        assert!(!denied.is_allowed());
        server.kill();
        until(|| !store.is_connected()).await;
        if asked.elapsed() < Duration::from_millis(500) {
            assert!(store.check(of(&WEEKLY, key(&["ada"]), 1)).await.unwrap().is_remembered());
        }
    }
    // Other keys get the store's error.
    assert!(store.check(of(&WEEKLY, key(&["grace"]), 1)).await.is_err());
}

#[tokio::test]
async fn outage_holds_denials_until_reset() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let [four, six] = [receipt(&store, &WEEKLY, 4).await, receipt(&store, &WEEKLY, 6).await];
    let asked = Instant::now();
    deny(&store).await;
    server.kill();
    until(|| !store.is_connected() && asked.elapsed() > Duration::from_millis(1_100)).await;
    let ada = || of(&WEEKLY, key(&["ada"]), 1);
    let standby = Fallback::new(store.clone());
    for mode in [
        FailureMode::Open,
        FailureMode::OpenFor(Duration::from_secs(60)),
        FailureMode::Closed,
        FailureMode::local(1),
    ] {
        let with = |user: &str| of(&WEEKLY.on_store_failure(mode), key(&[user]), 1);
        let held = standby.check(with("ada")).await.unwrap();
        assert!(!held.is_allowed() && held.is_remembered(), "{mode}");
        let other = standby.check(with("grace")).await;
        assert!(other.is_err() || other.is_ok_and(|outcome| outcome.is_allowed()), "{mode}");
    }
    assert!(store.check(ada().and(OTHER, key(&["grace"]), 1).unwrap()).await.unwrap().is_remembered());
    assert!(store.settle(four, 5).await.is_err() && store.refund(six).await.is_err());
    assert!(store.check(ada()).await.unwrap().is_remembered(), "nothing was refunded");
    let user = key(&["ada"]);
    assert!(store.block(&WEEKLY, user, Duration::from_secs(60)).await.is_err());
    let minute = Duration::from_secs(60);
    assert!(store.set_grant(&WEEKLY, user, Some((Quota::per_week(20), minute))).await.is_err());
    assert!(store.unblock(&WEEKLY, user).await.is_err());
    assert!(store.check(ada()).await.unwrap().is_remembered(), "nothing was changed");
    assert!(store.reset(&WEEKLY, key(&["ada"])).await.is_err());
    assert!(store.check(ada()).await.is_err(), "the operator wants it to pass");
}

/// A settlement that charges more frees nothing.
#[tokio::test]
async fn charge_keeps_held_denial() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let [four, _five] = [receipt(&store, &WEEKLY, 4).await, receipt(&store, &WEEKLY, 5).await];
    let two = of(&WEEKLY, key(&["ada"]), 2);
    assert!(!store.check(two.clone()).await.unwrap().is_allowed());
    let settled = store.settle(four, 5).await.unwrap();
    assert_eq!(settled.decision.remaining(), 0);
    assert!(store.0.denials.find_in_outage(&two).is_some());
}

/// A server that refuses the calls of the store has not answered them either.
#[tokio::test]
async fn refused_calls_pass_no_held_denial() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let _ = receipt(&store, &WEEKLY, 10).await;
    deny(&store).await;
    let open = |user| of(&WEEKLY.on_store_failure(FailureMode::Open), key(&[user]), 1);
    until(|| !store.0.denials.denies(&open("ada"))).await;
    server.cli(&["ACL", "SETUSER", "portcullis", "-evalsha"]);
    let standby = Fallback::new(store.clone());
    assert!(standby.check(open("ada")).await.unwrap().is_remembered());
    let other = standby.check(open("grace")).await;
    assert_eq!(other.unwrap_err().kind(), StoreErrorKind::Forbidden);
}

/// The minimum number of allocations of a check by a new key each time, by the store and by the client below it. The
/// client's buffers grow occasionally.
fn allocations(runtime: &tokio::runtime::Runtime, store: &RedisStore, cost: u64) -> u64 {
    let weekly = Policy::fixed_window("thousand", Quota::per_week(1_000));
    let once = |user: u32| {
        let checks = of(&weekly, key(&[&user.to_string()]), cost);
        let mut outcome = None;
        let counted = allocation_counter::measure(|| outcome = Some(runtime.block_on(store.check(checks))));
        let outcome = outcome.unwrap().unwrap();
        assert_eq!((outcome.is_allowed(), outcome.is_remembered()), (cost <= 1_000, false));
        counted.count_total
    };
    (0..100).map(once).min().unwrap()
}

#[test]
fn bounds_and_memory_cost_a_check_no_allocation() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(&[]);
    let with = runtime.block_on(open(&server));
    let without = runtime.block_on(patient(server.url()).denial_memory(0).connect()).unwrap();
    // The request, the future of the call, the task of the client, and the reply.
    assert_eq!(allocations(&runtime, &with, 1), 17);
    assert_eq!(allocations(&runtime, &with, 1_001), allocations(&runtime, &without, 1_001));
}
