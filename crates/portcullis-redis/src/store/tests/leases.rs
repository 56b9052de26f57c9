//! Leases: fewer calls, and no more than the policy promises plus the units in lease.

use std::time::{Duration, Instant};

use portcullis_core::lease::Spend;
use portcullis_core::store::{Checks, Outcome, Position, Run, Store as _};
use portcullis_core::{Decision, Policy, Quota, Receipt, Timestamp};
use portcullis_memory::Fallback;
use portcullis_servers::RedisCluster;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::{RedisStore, Server, check, key, left_at_last, open};
use crate::store::leases::Payment;

const LIMIT: u64 = 20_000;
const LEASE: u64 = 400;
const WEEKLY: Policy = Policy::fixed_window("weekly", Quota::per_week(LIMIT)).lease(LEASE);
const FEW: Policy = Policy::fixed_window("few", Quota::per_week(200)).lease(100);

fn checks(policy: &Policy) -> Checks {
    Checks::one(policy.clone(), key(&["ada"]), 1)
}

/// Makes requests until one is paid from a lease. Returns the number of units that were admitted, and the last outcome.
async fn lease(store: &RedisStore, policy: &Policy) -> (u64, Outcome) {
    for admitted in 1..=1_000 {
        let outcome = check(store, policy, 1).await;
        assert!(outcome.is_allowed());
        if outcome.is_leased() {
            return (admitted, outcome);
        }
    }
    panic!("nothing is leased");
}

/// Makes requests until one is denied and nothing is in lease. Returns how many were admitted.
async fn exhaust(store: &RedisStore, policy: &Policy) -> u64 {
    let mut admitted = 0;
    loop {
        let before = admitted;
        while check(store, policy, 1).await.is_allowed() {
            admitted += 1;
        }
        if admitted == before {
            return admitted;
        }
        // On a machine that pauses, a lease may have expired with a rest.
        store.return_leases().await;
    }
}

/// Waits until this number of units remains. Refunds run in tasks of their own.
async fn wait_for(store: &RedisStore, policy: &Policy, units: u64) {
    let started = Instant::now();
    while left_at_last(store, policy).await != units {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", left_at_last(store, policy).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn hot_key_takes_a_fiftieth_of_the_calls() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    for _ in 0..10_000 {
        assert!(check(&store, &WEEKLY, 1).await.is_allowed());
    }
    let calls = server.calls("evalsha");
    println!("{calls} calls for 10000 requests");
    assert!(calls <= 200, "{calls} calls");
}

#[tokio::test]
async fn many_tasks_wait_for_one_lease() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..200 {
                assert!(check(&store, &WEEKLY, 1).await.is_allowed());
                tokio::task::yield_now().await;
            }
        });
    }
    tasks.join_all().await;
    let calls = server.calls("evalsha");
    println!("{calls} calls for 12800 requests");
    assert!(calls <= 256, "{calls} calls");
}

#[tokio::test]
async fn key_with_few_requests_is_not_leased() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for left in (LIMIT - 9..LIMIT).rev() {
        let outcome = check(&store, &WEEKLY, 1).await;
        assert_eq!((outcome.is_leased(), outcome.decision().remaining()), (false, left));
    }
    assert_eq!(left_at_last(&store, &WEEKLY).await, LIMIT - 9);
}

#[tokio::test]
async fn remaining_counts_the_whole_lease_as_spent() {
    let server = Server::start(&[]);
    let (store, other) = (open(&server).await, open(&server).await);
    let (_, outcome) = lease(&store, &WEEKLY).await;
    assert!(outcome.decision().remaining() <= left_at_last(&other, &WEEKLY).await);
}

#[tokio::test]
async fn last_units_are_exact() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    assert_eq!(exhaust(&store, &FEW).await, 200);
}

#[tokio::test]
async fn several_stores_share_exactly_one_window() {
    let server = Server::start(&[]);
    let stores = [open(&server).await, open(&server).await, open(&server).await];
    let (mut admitted, started) = (0, Instant::now());
    // Units that one store has in lease are denied to the others, until they are returned.
    while admitted < LIMIT {
        for store in &stores {
            for _ in 0..500 {
                admitted += u64::from(check(store, &WEEKLY, 1).await.is_allowed());
            }
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{admitted} units admitted");
    }
    // What is left of leases was not admitted by anyone.
    for store in &stores {
        admitted += exhaust(store, &WEEKLY).await;
    }
    assert_eq!(admitted, LIMIT);
}

#[tokio::test]
async fn several_stores_admit_at_most_a_rate_and_their_leases() {
    let bucket = Policy::token_bucket("bucket", Quota::per_second(1_000)).lease(100);
    let server = Server::start(&[]);
    let stores = [open(&server).await, open(&server).await];
    let (mut admitted, mut leased) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        for store in &stores {
            let outcome = check(store, &bucket, 1).await;
            admitted += u128::from(outcome.is_allowed());
            leased += u32::from(outcome.is_leased());
        }
    }
    let promise = 1_000 + started.elapsed().as_micros().div_ceil(1_000);
    println!("{admitted} of {promise} units admitted, {leased} from leases");
    assert!(leased > 0 && admitted <= promise + 200, "{admitted} of {promise} units admitted");
}

#[tokio::test]
async fn unused_units_return_when_a_lease_expires() {
    let server = Server::start(&[]);
    let (store, other) = (open(&server).await, open(&server).await);
    let (spent, _) = lease(&store, &WEEKLY).await;
    wait_for(&other, &WEEKLY, LIMIT - spent).await;
}

#[tokio::test]
async fn unused_units_return_when_the_store_is_dropped() {
    let server = Server::start(&[]);
    let (store, other) = (open(&server).await, open(&server).await);
    let (spent, _) = lease(&store, &WEEKLY).await;
    drop(store);
    wait_for(&other, &WEEKLY, LIMIT - spent).await;
}

#[tokio::test]
async fn unused_units_return_on_request() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let (spent, _) = lease(&store, &WEEKLY).await;
    store.return_leases().await;
    wait_for(&store, &WEEKLY, LIMIT - spent).await;
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn crash_loses_its_lease_and_admits_no_more() {
    let server = Server::start(&[]);
    let crashed = runtime();
    let store = crashed.block_on(open(&server));
    let (mut admitted, _) = crashed.block_on(lease(&store, &FEW));
    // Nothing that belongs to the store runs from here on.
    crashed.shutdown_background();
    drop(store);
    let after = runtime();
    let other = after.block_on(open(&server));
    admitted += after.block_on(exhaust(&other, &FEW));
    println!("{admitted} of 200 units admitted");
    assert!((100..=200).contains(&admitted), "{admitted}");
}

#[test]
fn lease_of_an_ended_runtime_returns_in_the_next() {
    let server = Server::start(&[]);
    let own = runtime();
    let store = own.block_on(open(&server));
    let (spent, _) = own.block_on(lease(&store, &WEEKLY));
    drop(own);
    runtime().block_on(async {
        store.return_leases().await;
        wait_for(&store, &WEEKLY, LIMIT - spent).await;
    });
}

#[test]
fn paid_request_allocates_nothing() {
    let (runtime, server) = (runtime(), Server::start(&[]));
    let store = runtime.block_on(open(&server));
    let once = || {
        let _ = runtime.block_on(lease(&store, &WEEKLY));
        let (asked, mut outcome) = (checks(&WEEKLY), None);
        let counted = allocation_counter::measure(|| outcome = store.check(asked).into_ready().ok());
        let leased = outcome.is_some_and(|outcome| outcome.unwrap().is_leased());
        leased.then_some(counted.count_total)
    };
    assert_eq!((0..100).filter_map(|_| once()).min(), Some(0));
}

#[tokio::test]
async fn other_policys_denial_undoes_the_spend() {
    let five = Policy::fixed_window("five", Quota::per_week(5));
    let server = Server::start(&[]);
    let store = open(&server).await;
    let both = || checks(&WEEKLY).and(five.clone(), key(&["ada"]), 1).unwrap();
    let (mut spent, _) = lease(&store, &WEEKLY).await;
    for _ in 0..20 {
        spent += u64::from(store.check(both()).await.unwrap().is_allowed());
        // The first policy stays in lease.
        spent += u64::from(check(&store, &WEEKLY, 1).await.is_allowed());
    }
    assert_eq!(left_at_last(&store, &five).await, 0);
    store.return_leases().await;
    wait_for(&store, &WEEKLY, LIMIT - spent).await;
}

#[tokio::test]
async fn decision_without_a_lease_keeps_payments() {
    let [paid, asked] = ["paid", "asked"].map(|name| Policy::fixed_window(name, Quota::per_week(9)).lease(5));
    let server = Server::start(&[]);
    let store = open(&server).await;
    // The first policy has nothing left, the second fewer units than the lease would have.
    for (policy, cost) in [(&paid, 9), (&asked, 6)] {
        assert!(check(&store, policy, cost).await.is_allowed());
    }
    let snapshot = paid.strategy().snapshot(None, Timestamp::EPOCH, 0, true);
    let run = Run { units: 1, position: Position::default() };
    let payments = [Payment::Spent(Spend { run, at: Timestamp::EPOCH, snapshot }), Payment::Ask(5)];
    let both = checks(&paid).and(asked.clone(), key(&["ada"]), 1).unwrap();
    let outcome = store.start_leased(both, payments.into_iter().collect(), None, None).await.unwrap();
    assert!(outcome.is_allowed());
    assert_eq!(left_at_last(&store, &asked).await, 2);
}

#[tokio::test]
async fn client_leaving_a_lease_call_pays_nothing() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    assert!(check(&store, &WEEKLY, 1).await.is_allowed());
    server.signal("STOP");
    let asks = store.start_leased(checks(&WEEKLY), [Payment::Ask(5)].into_iter().collect(), None, None);
    let leaving = tokio::spawn(asks);
    tokio::time::sleep(Duration::from_millis(50)).await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    server.signal("CONT");
    wait_for(&store, &WEEKLY, LIMIT - 1).await;
}

#[tokio::test]
async fn refunds_and_settlements_return_units_to_the_lease() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let (mut spent, _) = lease(&store, &WEEKLY).await;
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..20 {
        receipts.extend(check(&store, &WEEKLY, 2).await.into_receipts());
    }
    for (receipt, kept) in receipts.into_iter().zip([0, 1, 2].into_iter().cycle()) {
        spent += kept;
        if kept == 0 {
            let _: Decision = store.refund(receipt).await.unwrap();
        } else {
            let settled = store.settle(receipt, kept).await.unwrap();
            assert_eq!(settled.receipt.map(|receipt| receipt.cost()), Some(kept));
        }
    }
    store.return_leases().await;
    wait_for(&store, &WEEKLY, LIMIT - spent).await;
}

#[tokio::test]
async fn reset_ends_the_lease() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let _ = lease(&store, &WEEKLY).await;
    store.reset(&WEEKLY, key(&["ada"])).await.unwrap();
    assert!(!check(&store, &WEEKLY, 0).await.is_leased());
    store.return_leases().await;
    wait_for(&store, &WEEKLY, LIMIT).await;
}

#[tokio::test]
async fn another_quota_ends_the_lease_at_once() {
    let more = Policy::fixed_window("weekly", Quota::per_week(2 * LIMIT)).lease(LEASE);
    let server = Server::start(&[]);
    let store = open(&server).await;
    let (spent, _) = lease(&store, &WEEKLY).await;
    let first = check(&store, &more, 1).await;
    assert!(first.is_allowed() && first.decision().limit() == 2 * LIMIT);
    store.return_leases().await;
    wait_for(&store, &more, 2 * LIMIT - spent - 1).await;
}

#[tokio::test]
async fn outage_begins_with_the_rest_of_the_lease() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let _ = lease(&store, &WEEKLY).await;
    server.kill();
    let mut leased = 0;
    while let Ok(outcome) = store.check(checks(&WEEKLY)).await {
        assert!(outcome.is_leased() && outcome.is_allowed());
        leased += 1;
    }
    println!("{leased} units after the server was killed");
    assert!(leased <= LEASE);
}

#[tokio::test]
async fn outage_is_local_after_the_lease() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let _ = lease(&store, &FEW).await;
    server.kill();
    let fallback = Fallback::new(store);
    let (mut leased, mut local) = (0, 0);
    loop {
        let outcome = fallback.check(checks(&FEW)).await.unwrap();
        if !outcome.is_allowed() {
            break;
        }
        assert_ne!(outcome.is_leased(), outcome.decision().is_degraded());
        assert!(!outcome.is_leased() || local == 0, "the lease is spent first");
        leased += u32::from(outcome.is_leased());
        local += u32::from(!outcome.is_leased());
    }
    println!("{leased} units from the lease and {local} locally");
    assert!(leased <= 100 && local == 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_several_slots_of_a_cluster_are_leased() {
    let second = Policy::gcra("second", Quota::per_week(1_000).burst(LIMIT)).lease(LEASE);
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = super::open_url(cluster.url()).await;
    let both =
        |cost| Checks::one(WEEKLY, key(&["ada"]), cost).and(second.clone(), key(&["grace"]), cost).unwrap();
    let (mut leased, started) = (0, Instant::now());
    for _ in 0..2_000 {
        let outcome = store.check(both(1)).await.unwrap();
        assert!(outcome.is_allowed());
        leased += u32::from(outcome.is_leased());
    }
    println!("{leased} of 2000 decisions were paid from leases");
    assert!(leased > 1_000);
    store.return_leases().await;
    loop {
        let left = store.check(both(0)).await.unwrap();
        let left: Vec<u64> = left.decisions().iter().map(Decision::remaining).collect();
        if left == [LIMIT - 2_000; 2] {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
