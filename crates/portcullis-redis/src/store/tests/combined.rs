//! Decisions that share calls.
//!
//! Most tests run on one thread, whose tasks begin in the order in which they are spawned: the first two decisions are sent in
//! calls of their own, and the others wait for these.

mod cluster;
mod refused;
mod repeated;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{
    Key, Policy, PolicyName, Quota, SlidingWindow, StoreError, StoreErrorKind, Strategy, WindowTable,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::{BURST, MONTHLY, RedisStore, Server, check, key, left_at_last, patient};

const FIVE: Policy = Policy::fixed_window("five", Quota::per_week(5));
/// The calls of a connection that are on their way before decisions wait.
const ALONE: usize = 2;
/// Long, because decisions are sent early after a sixteenth of it, and a busy machine may be late.
const DEADLINE: Duration = Duration::from_secs(40);

async fn open(server: &Server) -> RedisStore {
    // Each key may have more waiting calls than any test makes.
    let store = patient(server.url()).deadline(DEADLINE).max_waiting(100_000);
    store.connect().await.unwrap()
}

fn user(number: usize) -> Key {
    key(&[&number.to_string()])
}

fn of(policy: &Policy, key: Key, cost: u64) -> Checks {
    Checks::one(policy.clone(), key, cost)
}

type Task = JoinHandle<Result<Outcome, StoreError>>;

fn ask(store: &RedisStore, checks: Checks) -> Task {
    tokio::spawn(store.check(checks))
}

/// Decisions that are sent in calls of their own. Decisions that are spawned after them wait for these calls.
fn busy(store: &RedisStore) -> Vec<Task> {
    (0..ALONE).map(|number| ask(store, of(&MONTHLY, key(&["busy", &number.to_string()]), 0))).collect()
}

async fn all(tasks: Vec<Task>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap().unwrap());
    }
    outcomes
}

#[tokio::test]
async fn one_task_sends_each_decision_in_a_call_of_its_own() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    for number in 0..20 {
        assert!(store.check(of(&MONTHLY, user(number), 1)).await.unwrap().is_allowed());
        assert_eq!(server.calls("evalsha"), u64::try_from(number).unwrap() + 1);
    }
}

#[tokio::test]
async fn decisions_that_arrive_during_calls_leave_in_one() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..100).map(|number| ask(&store, of(&MONTHLY, user(number), 1))).collect();
    for outcome in all(tasks).await {
        assert!(outcome.is_allowed() && outcome.decision().remaining() == 999);
    }
    assert_eq!(["evalsha", "get", "set"].map(|command| server.calls(command)), [3, 100, 100]);
}

#[tokio::test]
async fn hot_key_admits_its_limit_in_few_calls() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let policy = Policy::fixed_window("hot", Quota::per_week(500));
    server.cli(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..1_000).map(|_| ask(&store, of(&policy, user(0), 1))).collect();
    let admitted = all(tasks).await.iter().filter(|outcome| outcome.is_allowed()).count();
    assert_eq!(admitted, 500);
    let [calls, reads, writes] = ["evalsha", "get", "set"].map(|command| server.calls(command));
    println!("{calls} calls");
    assert!(calls < 200 && reads == calls && writes <= calls, "{calls} calls, {reads} and {writes}");
}

#[tokio::test]
async fn limit_is_used_up_in_the_order_of_arrival() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let policy = Policy::fixed_window("ten", Quota::per_week(10));
    let tasks = (0..40).map(|_| ask(&store, of(&policy, user(0), 1))).collect();
    let left: Vec<_> = all(tasks).await.iter().map(|outcome| outcome.decision().remaining()).collect();
    assert_eq!(left[..10], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(left[10..], [0; 30]);
}

#[tokio::test]
async fn each_decision_of_a_call_charges_all_policies_or_none() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let both = || of(&MONTHLY, user(0), 7).and(BURST, user(1), 4).unwrap();
    let mut tasks = busy(&store);
    tasks.extend([both(), both(), of(&MONTHLY, user(0), 2)].map(|checks| ask(&store, checks)));
    let outcomes = all(tasks).await;
    let figures = |outcome: &Outcome| {
        outcome.decisions().iter().map(|decision| (decision.is_allowed(), decision.remaining())).collect()
    };
    let figures: Vec<Vec<_>> = outcomes[ALONE..].iter().map(figures).collect();
    assert_eq!(figures, [vec![(true, 993), (true, 1)], vec![(true, 993), (false, 1)], vec![(true, 991)]]);
    assert_eq!(server.calls("evalsha"), 3);
}

/// Decisions about months, weeks and policies under which requests wait, in one call.
#[tokio::test]
async fn calendar_windows_and_waits_share_a_call() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let [table, weeks, local] = [0, 1, 2].map(|index| &portcullis_testing::calendars()[index]);
    let months = Policy::calendar_window("months", 5, table);
    let weeks = Policy::calendar_window("weeks", 3, weeks);
    // The same calendar by other time zone data: the same key.
    let local = WindowTable::new(table.name(), local.first(), local.starts()).unwrap();
    let local = Policy::calendar_window("months", 9, Box::leak(Box::new(local)));
    let waits = Policy::gcra("waits", Quota::per_hour(3_600).burst(2)).wait_at_most(Duration::from_secs(600));
    let brief = Policy::gcra("waits", Quota::per_hour(3_600).burst(2)).wait_at_most(Duration::from_secs(400));
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut tasks = busy(&store);
    let decisions = [
        of(&months, user(0), 2)
            .and(weeks.clone(), user(0), 2)
            .unwrap()
            .and(waits.clone(), user(0), 2)
            .unwrap(),
        // The week has one unit left, so that nothing is charged.
        of(&waits, user(0), 1).and(weeks.clone(), user(0), 2).unwrap(),
        of(&local, user(0), 3),
        of(&waits, user(0), 2).and(months.clone(), user(1), 1).unwrap(),
        of(&months, user(0), 1),
        of(&brief, user(0), 1).and(weeks.clone(), user(0), 1).unwrap(),
    ];
    tasks.extend(decisions.map(|checks| ask(&store, checks)));
    let outcomes = all(tasks).await;
    assert_eq!(server.calls("evalsha"), 3);
    let figures = |outcome: &Outcome| -> Vec<_> {
        let decisions = outcome.decisions().iter();
        decisions
            .map(|decision| (decision.is_allowed(), decision.remaining(), decision.delay().as_secs()))
            .collect()
    };
    let figures: Vec<_> = outcomes[ALONE..].iter().map(figures).collect();
    assert_eq!(
        figures,
        [
            vec![(true, 3, 0), (true, 1, 0), (true, 0, 0)],
            vec![(true, 0, 0), (false, 1, 0)],
            vec![(true, 4, 0)],
            vec![(true, 0, 2), (true, 4, 0)],
            vec![(false, 0, 0)],
            // The decisive decision has the longest delay of all.
            vec![(true, 0, 3), (true, 0, 3)],
        ]
    );
}

#[tokio::test]
async fn calls_are_bounded_in_keys_and_in_server_time() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..300).map(|number| ask(&store, of(&MONTHLY, user(number), 1))).collect();
    assert_eq!(all(tasks).await.len(), 300);
    // 298 decisions wait: 128, 128 and 42.
    assert_eq!(server.calls("evalsha"), 5);

    server.cli(&["CONFIG", "RESETSTAT"]);
    let slots = Strategy::SlidingWindow(SlidingWindow::with_slots(Quota::per_week(9), 600).unwrap());
    let slow = Policy::new(PolicyName::literal("slow"), slots);
    let mut tasks = busy(&store);
    tasks.extend((0..4).map(|number| ask(&store, of(&slow, user(number), 1))));
    assert_eq!(all(tasks).await.len(), 6);
    assert_eq!(server.calls("evalsha"), 6, "two of them exceed the server time of a call");
}

#[tokio::test]
async fn flood_of_one_key_leaves_room_in_calls() {
    const FLOOD: usize = 600;
    let server = Server::start(&[]);
    let store = open(&server).await;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD {
        let (answer, answered) = (store.check(of(&MONTHLY, user(0), 1)), Arc::clone(&answered));
        flood.spawn(async move {
            assert!(answer.await.unwrap().is_allowed());
            answered.fetch_add(1, Relaxed);
        });
    }
    let others = (1..11).map(|number| ask(&store, of(&MONTHLY, user(number), 1))).collect();
    assert!(all(others).await.iter().all(Outcome::is_allowed));
    // 64 decisions of the key have a permit, and 256 have joined one of these. The others of the flood arrive after those of other
    // keys.
    let answered = answered.load(Relaxed);
    assert!(answered <= 2 * 64 + 256, "{answered} of the flood were answered before");
    assert_eq!(flood.join_all().await.len(), FLOOD);
}

#[tokio::test]
async fn sliding_log_is_decided_in_own_calls() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let log = Policy::sliding_log("log", Quota::per_week(20));
    server.cli(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..50).map(|_| ask(&store, of(&log, user(0), 1))).collect();
    let admitted = all(tasks).await.iter().filter(|outcome| outcome.is_allowed()).count();
    assert_eq!((admitted, server.calls("evalsha")), (20, 50));
}

#[tokio::test]
async fn lost_script_is_loaded_once_for_a_call() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..60).map(|_| ask(&store, of(&MONTHLY, user(0), 1))).collect();
    assert!(all(tasks).await.iter().all(Outcome::is_allowed));
    assert_eq!(server.calls("script|load"), 1);
    let peek = store.check(of(&MONTHLY, user(0), 0)).await.unwrap();
    assert_eq!(peek.decision().remaining(), 940);
}

#[tokio::test]
async fn caller_that_leaves_early_is_not_charged() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    server.signal("STOP");
    let mut tasks = busy(&store);
    let leaving: Vec<_> = (0..10).map(|_| ask(&store, of(&MONTHLY, key(&["ada"]), 1))).collect();
    tasks.push(ask(&store, of(&MONTHLY, user(0), 1)));
    sleep(Duration::from_millis(50)).await;
    for task in &leaving {
        task.abort();
    }
    for task in leaving {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    server.signal("CONT");
    assert!(all(tasks).await.iter().all(Outcome::is_allowed));
    assert_eq!((left_at_last(&store, &MONTHLY).await, server.calls("evalsha")), (1_000, 4));
}

#[tokio::test]
async fn callers_that_leave_do_not_hold_up_those_that_wait() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.signal("STOP");
    let leaving = busy(&store);
    let first = ask(&store, of(&MONTHLY, key(&["ada"]), 1));
    let tasks = (0..20).map(|number| ask(&store, of(&MONTHLY, user(number), 1))).collect();
    sleep(Duration::from_millis(50)).await;
    // The decisions whose calls are on their way, and the first that waits.
    for task in leaving.iter().chain([&first]) {
        task.abort();
    }
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert!(all(tasks).await.iter().all(Outcome::is_allowed));
    assert_eq!(left_at_last(&store, &MONTHLY).await, 1_000);
}

#[tokio::test]
async fn unanswered_call_is_made_at_most_once() {
    const SHORT: Duration = Duration::from_secs(2);
    let server = Server::start(&[]);
    let store = patient(server.url()).deadline(SHORT).connect().await.unwrap();
    assert!(check(&store, &MONTHLY, 1).await.is_allowed());
    server.signal("STOP");
    let tasks: Vec<_> = (0..30).map(|_| ask(&store, of(&MONTHLY, key(&["ada"]), 1))).collect();
    let started = std::time::Instant::now();
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
        assert!(error.outage().is_some(), "{error}");
    }
    assert!(started.elapsed() >= SHORT);
    server.signal("CONT");
    // They were sent early, although the first calls had no reply.
    assert_eq!(left_at_last(&store, &MONTHLY).await, 1_000 - 31);
}
