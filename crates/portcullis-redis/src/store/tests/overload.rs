//! More checks of one key than can be sent.

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Key, Policy, Quota, StoreError, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{RedisStore, Server, key, patient, receipt};
use crate::connection::tests::waiting::until;
use crate::transport::Transport as _;

const TEN: Policy = Policy::fixed_window("ten", Quota::per_week(10));
const THOUSAND: Policy = Policy::fixed_window("thousand", Quota::per_week(1_000));
/// Long, because a busy machine may be late.
const DEADLINE: Duration = Duration::from_secs(20);
/// The calls of one key.
const IN_FLIGHT: usize = 64;
const WAITING: usize = 10;
const BEYOND: usize = 50;

async fn open(server: &Server, max_waiting: usize) -> RedisStore {
    let store = patient(server.url()).deadline(DEADLINE).max_waiting(max_waiting);
    store.connect().await.unwrap()
}

fn of(user: Key, cost: u64) -> Checks {
    Checks::one(TEN, user, cost)
}

/// A decision that joins no equal one, so that it needs a permit.
fn of_both(user: Key, cost: u64) -> Checks {
    of(user, cost).and(THOUSAND, user, cost).unwrap()
}

/// The number of calls that wait for a permit.
fn waiting(store: &RedisStore) -> usize {
    let mut waiting = 0;
    store.figures(&mut |figure| {
        if figure.name == "calls_waiting" {
            waiting = usize::try_from(figure.value).unwrap();
        }
    });
    waiting
}

fn assert_overloaded(error: &StoreError) {
    assert_eq!((error.kind(), error.outage()), (StoreErrorKind::Overloaded, None), "{error}");
    assert!(error.to_string().contains("too many calls wait"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_denial_answers_its_keys_waiting() {
    let server = Server::start(&[]);
    let store = open(&server, 10_000).await;
    assert!(store.check(of(key(&["warm"]), 1)).await.unwrap().is_allowed());
    server.cli(&["CONFIG", "RESETSTAT"]);
    server.signal("STOP");
    let mut checks = JoinSet::new();
    for _ in 0..600 {
        let store = store.clone();
        checks.spawn(async move { store.check(of_both(key(&["ada"]), 1)).await.unwrap() });
    }
    until(|| waiting(&store) == 600 - IN_FLIGHT).await;
    server.signal("CONT");
    let outcomes = checks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_allowed()).count(), 10);
    let remembered = outcomes.iter().filter(|outcome| outcome.is_remembered()).count();
    let (decided, trips) = (600 - remembered, usize::try_from(server.calls("evalsha")).unwrap());
    println!("{trips} trips, {decided} decided by the server, {remembered} remembered");
    // Decisions share trips, and those that wait for a permit take none.
    assert!(trips <= decided && decided < 300 && trips < 100, "{trips} trips, {decided} decided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrections_beyond_the_bounds_of_their_key_are_overloaded() {
    let server = Server::start(&[]);
    // One key has a sixteenth of the waiting calls.
    let store = open(&server, 16 * WAITING).await;
    let (one, two) = (receipt(&store, &TEN, 2).await, receipt(&store, &TEN, 3).await);
    let of_grace = store.check(of(key(&["grace"]), 4)).await.unwrap().into_receipts().next().unwrap();
    server.signal("STOP");
    let mut peeks = JoinSet::new();
    for _ in 0..IN_FLIGHT + WAITING + BEYOND {
        let store = store.clone();
        peeks.spawn(async move { store.check(of_both(key(&["ada"]), 0)).await.map(drop) });
    }
    for _ in 0..BEYOND {
        let refused = peeks.join_next().await.unwrap().unwrap();
        assert_overloaded(&refused.unwrap_err());
    }
    assert_overloaded(&store.refund(one).await.unwrap_err());
    assert_overloaded(&store.settle(two, 1).await.unwrap_err());
    assert_overloaded(&store.reset(&TEN, key(&["ada"])).await.unwrap_err());
    // Other keys have waiting calls left.
    let refund = tokio::spawn({
        let store = store.clone();
        async move { store.refund(of_grace).await }
    });
    sleep(Duration::from_millis(20)).await;
    assert!(!refund.is_finished());
    server.signal("CONT");
    assert_eq!(refund.await.unwrap().unwrap().remaining(), 10);
    let answered = peeks.join_all().await.into_iter().flatten().count();
    assert_eq!(answered, IN_FLIGHT + WAITING);
}

/// Nothing drives the runtime of the connection, so that its calls are not sent, and its probe is not either.
#[test]
fn stall_of_its_runtime_is_an_overload() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(&[]);
    let (own, other) = (runtime(), runtime());
    let store = patient(server.url()).deadline(Duration::from_millis(500));
    let store = own.block_on(store.connect()).unwrap();
    assert!(own.block_on(store.check(of(key(&["warm"]), 1))).unwrap().is_allowed());
    let kinds = other.block_on(async {
        let mut checks = JoinSet::new();
        for user in 0..40 {
            checks.spawn(store.check(of(key(&[&user.to_string()]), 1)));
        }
        let kind = |answer: Result<_, StoreError>| answer.map(drop).unwrap_err().kind();
        checks.join_all().await.into_iter().map(kind).collect::<Vec<_>>()
    });
    assert!(kinds.iter().all(|kind| kind.is_overload()), "{kinds:?}");
    // Checks that wait to share a call are certainly not charged.
    assert!(kinds.contains(&StoreErrorKind::Overloaded), "{kinds:?}");
    let availability = store.0.connection.availability(None);
    assert_eq!((availability.rejection, availability.outage), (None, None));
    own.block_on(async {
        let started = Instant::now();
        while let Err(error) = store.check(of(key(&["late"]), 1)).await {
            assert!(started.elapsed() < DEADLINE, "no recovery: {error}");
        }
    });
}
