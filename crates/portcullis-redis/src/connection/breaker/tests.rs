use std::sync::atomic::AtomicUsize;

use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use super::*;

const DEADLINE: Duration = Duration::from_millis(50);

fn breaker() -> Arc<Breaker> {
    let breaker = Breaker::new(Arc::default());
    assert!(breaker.connected());
    breaker
}

async fn opened() -> Arc<Breaker> {
    let breaker = breaker();
    advance(Duration::from_secs(1)).await;
    let ticket = breaker.admit().unwrap();
    advance(DEADLINE).await;
    ticket.silent();
    assert!(!breaker.is_closed());
    breaker
}

/// Waits for a probe.
async fn probe(breaker: &Arc<Breaker>) -> (BreakerPermit, Duration) {
    let start = Instant::now();
    loop {
        if let Some(ticket) = breaker.admit() {
            return (ticket, start.elapsed());
        }
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_reply_opens_unless_another_was_answered_since() {
    let breaker = breaker();
    advance(DEADLINE).await;
    let (slow, good) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE / 2).await;
    good.answered();
    advance(DEADLINE / 2).await;
    slow.silent();
    assert!(breaker.is_closed() && breaker.outage().is_none());

    let silent = breaker.admit().unwrap();
    advance(DEADLINE).await;
    silent.silent();
    assert!(breaker.rejects_now());
    assert_eq!(breaker.outage(), Some(DEADLINE));
}

#[tokio::test(start_paused = true)]
async fn probes_go_one_at_a_time_and_ever_more_seldom_until_one_is_answered() {
    let breaker = opened().await;
    for step in 0..12 {
        let (ticket, waited) = probe(&breaker).await;
        let mean = interval(step);
        let most = mean * 3 / 2 + Duration::from_millis(2);
        assert!((mean / 2..=most).contains(&waited), "{step}: {waited:?} for {mean:?}");
        assert!(breaker.admit().is_none() && breaker.rejects_now());
        ticket.silent();
        assert!(breaker.admit().is_none() && breaker.rejects_now());
    }
    assert_eq!(interval(11), Duration::from_millis(500));
    let (ticket, _) = probe(&breaker).await;
    assert!(breaker.outage().unwrap() > Duration::from_secs(1));
    ticket.answered();
    assert!(breaker.is_closed() && breaker.outage().is_none());
    assert!(breaker.admit().is_some() && breaker.admit().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_caller_goes_away_leaves_its_place_to_another() {
    let breaker = opened().await;
    for _ in 0..3 {
        let (ticket, waited) = probe(&breaker).await;
        assert!(waited <= Duration::from_millis(17), "{waited:?}");
        drop(ticket);
    }
    probe(&breaker).await.0.answered();
    assert!(breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn any_answer_closes_and_a_new_connection_too() {
    let breaker = breaker();
    advance(DEADLINE).await;
    let (first, second) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE).await;
    first.silent();
    assert!(!breaker.is_closed());
    advance(DEADLINE).await;
    second.answered();
    assert!(breaker.is_closed());

    let breaker = opened().await;
    breaker.disconnected();
    assert!(breaker.connected() && breaker.is_closed() && breaker.outage().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_everybody_is_probed_across_connections() {
    let breaker = breaker();
    advance(DEADLINE).await;
    breaker.admit().unwrap().refused(true);
    breaker.disconnected();
    assert!(!breaker.connected() && !breaker.is_closed());
    let (ticket, _) = probe(&breaker).await;
    assert!(breaker.admit().is_none());
    ticket.refused(true);
    breaker.disconnected();
    assert!(!breaker.connected() && breaker.outage() > Some(Duration::ZERO));
    assert!(probe(&breaker).await.0.answered(), "it ends the time of refusals");
    assert!(breaker.is_closed() && breaker.outage().is_none());

    breaker.admit().unwrap().refused(false);
    assert!(breaker.is_closed() && breaker.outage().is_some());
    breaker.admit().unwrap().answered();
    assert!(breaker.outage().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_outage_outlasts_connections_to_a_server_that_serves_nobody() {
    let breaker = breaker();
    for _ in 0..10 {
        assert!(breaker.connected() != breaker.outage().is_some() && breaker.is_closed());
        breaker.admit().unwrap().refused(false);
        advance(Duration::from_secs(10)).await;
        breaker.disconnected();
    }
    assert!(breaker.outage() > Some(Duration::from_secs(99)), "{:?}", breaker.outage());
    assert!(!breaker.connected() && breaker.is_closed());
    assert!(breaker.admit().unwrap().answered(), "it ends the time of refusals");
    assert_eq!(breaker.outage(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_tasks_exactly_one_probes() {
    let breaker = breaker();
    for _ in 0..20 {
        sleep(Duration::from_millis(1)).await;
        breaker.admit().unwrap().silent();
        let (passed, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        let end = Instant::now() + Duration::from_millis(60);
        for _ in 0..8 {
            let (breaker, passed, at_once) =
                (Arc::clone(&breaker), Arc::clone(&passed), Arc::clone(&at_once));
            tasks.spawn(async move {
                // On a busy machine a probe may be later than that.
                while Instant::now() < end || passed.load(Ordering::SeqCst) == 0 {
                    assert!(Instant::now() < end + Duration::from_secs(10), "nobody probes");
                    if let Some(ticket) = breaker.admit() {
                        assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        passed.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        drop(ticket);
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        tasks.join_all().await;
        let passed = passed.load(Ordering::SeqCst);
        assert!(passed <= 40, "{passed}");
        probe(&breaker).await.0.answered();
    }
}
