//! Equal decisions about a key, which the script makes in one step.

use portcullis_core::store::Outcome;
use portcullis_core::{Policy, Quota, StoreErrorKind};
use tokio::time::sleep;

use super::*;

fn left(outcomes: &[Outcome]) -> Vec<(bool, u64)> {
    outcomes.iter().map(|outcome| (outcome.is_allowed(), outcome.decision().remaining())).collect()
}

#[tokio::test]
async fn series_up_to_the_limit_is_one_write() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    // The second has intervals with remainders of microseconds.
    for (number, policy) in [FIVE, Policy::gcra("seven", Quota::per_week(7).burst(5))].into_iter().enumerate()
    {
        server.cli(&["CONFIG", "RESETSTAT"]);
        let mut tasks = busy(&store);
        tasks.extend((0..8).map(|_| ask(&store, of(&policy, user(number), 1))));
        let outcomes = all(tasks).await;
        let admitted = [4, 3, 2, 1, 0].map(|left| (true, left));
        assert_eq!(left(&outcomes[ALONE..]), [&admitted[..], &[(false, 0); 3]].concat());
        assert_eq!(["evalsha", "get", "set"].map(|command| server.calls(command)), [3, 3, 1]);
    }
}

#[tokio::test]
async fn equal_decisions_are_made_in_order() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let policy = Policy::fixed_window("flood", Quota::per_week(900));
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut tasks = busy(&store);
    tasks.extend((0..1_000).map(|_| ask(&store, of(&policy, user(0), 1))));
    let mut counts = left(&all(tasks).await[ALONE..]);
    // Decisions that waited for a permit may be answered without a call, because the key was denied meanwhile.
    let denied = counts.split_off(900);
    assert!(denied.iter().all(|(is_allowed, _)| !is_allowed));
    // In the order of their arrival, each with its own figures.
    assert_eq!(counts, (0..900).rev().map(|left| (true, left)).collect::<Vec<_>>());
    let calls = server.calls("evalsha");
    // Without decisions that join others there would be more than 40, of at most 64 decisions.
    assert!(calls <= 25, "{calls} calls");
}

#[tokio::test]
async fn callers_of_a_hot_key_share_one_call_at_a_time() {
    const ROUNDS: u64 = 30;
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let store = store.clone();
        callers.spawn(async move {
            for _ in 0..ROUNDS {
                assert!(store.check(of(&MONTHLY, user(0), 1)).await.unwrap().is_allowed());
            }
        });
    }
    callers.join_all().await;
    let calls = server.calls("evalsha");
    // The first two decisions are sent by themselves. With two calls on their way, each for a half, there would be twice as many.
    assert!((ROUNDS..ROUNDS + 6).contains(&calls), "{calls} calls");
    assert_eq!(left(&[store.check(of(&MONTHLY, user(0), 0)).await.unwrap()]), [(true, 1_000 - 16 * ROUNDS)]);
}

#[tokio::test]
async fn decision_overtakes_none_without_a_permit() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.signal("STOP");
    let first = busy(&store);
    // With the next decision they have all permits of the key.
    let both = of(&MONTHLY, user(0), 0).and(Policy::fixed_window("other", Quota::per_week(5)), user(0), 0);
    let others: Vec<_> = (0..63).map(|_| ask(&store, both.clone().unwrap())).collect();
    let tasks = [1, 2, 1].map(|cost| ask(&store, of(&FIVE, user(0), cost)));
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert_eq!(left(&all(tasks.into()).await), [(true, 4), (true, 2), (true, 1)]);
    assert_eq!(all(first).await.len() + all(others).await.len(), ALONE + 63);
}

#[tokio::test]
async fn another_cost_splits_a_series_in_its_order() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let mut tasks = busy(&store);
    tasks.extend([1, 1, 2, 2, 1, 1].map(|cost| ask(&store, of(&FIVE, user(0), cost))));
    let outcomes = all(tasks).await;
    let expected = [(true, 4), (true, 3), (true, 1), (false, 1), (true, 0), (false, 0)];
    assert_eq!(left(&outcomes[ALONE..]), expected);
    assert_eq!(left(&[store.check(of(&FIVE, user(0), 0)).await.unwrap()]), [(true, 0)]);
}

#[tokio::test]
async fn receipts_of_a_series_are_refunded_one_by_one() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let policy = Policy::gcra("seven", Quota::per_week(7).burst(5));
    let mut tasks = busy(&store);
    tasks.extend((0..5).map(|_| ask(&store, of(&policy, user(0), 1))));
    let mut outcomes = all(tasks).await;
    for (expected, outcome) in (1..).zip(outcomes.drain(ALONE..).rev()) {
        let receipt = outcome.into_receipts().next().unwrap();
        assert_eq!(store.refund(receipt).await.unwrap().remaining(), expected);
    }
}

#[tokio::test]
async fn callers_that_leave_a_series_charge_nothing() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.signal("STOP");
    let first = busy(&store);
    let mut tasks: Vec<_> = (0..9).map(|_| ask(&store, of(&MONTHLY, user(0), 1))).collect();
    sleep(Duration::from_millis(50)).await;
    for leaving in [7, 4, 0] {
        let task = tasks.remove(leaving);
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    server.signal("CONT");
    assert_eq!(all(first).await.len(), ALONE);
    assert_eq!(left(&all(tasks).await), [999, 998, 997, 996, 995, 994].map(|left| (true, left)));
    assert_eq!(left(&[store.check(of(&MONTHLY, user(0), 0)).await.unwrap()]), [(true, 994)]);
}

#[tokio::test]
async fn full_server_refuses_series_not_peeks() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    server.signal("STOP");
    let first = busy(&store);
    let charges: Vec<_> = (0..4).map(|_| ask(&store, of(&FIVE, user(0), 1))).collect();
    let peeks = (0..4).map(|_| ask(&store, of(&FIVE, user(1), 0))).collect();
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert_eq!(all(first).await.len(), ALONE);
    assert_eq!(left(&all(peeks).await), [(true, 5); 4]);
    for charge in charges {
        assert_eq!(charge.await.unwrap().unwrap_err().kind(), StoreErrorKind::Failed);
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(left(&[store.check(of(&FIVE, user(0), 0)).await.unwrap()]), [(true, 5)]);
}
