use std::sync::atomic::AtomicUsize;

use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use super::*;

const DEADLINE: Duration = Duration::from_millis(50);

fn breaker() -> Arc<Breaker> {
    let breaker = Breaker::new(Arc::default(), Arc::default());
    assert!(breaker.connected());
    breaker
}

async fn opened() -> Arc<Breaker> {
    let breaker = breaker();
    advance(Duration::from_secs(1)).await;
    let permit = breaker.admit().unwrap();
    advance(DEADLINE).await;
    permit.timed_out(None);
    assert!(!breaker.is_closed());
    breaker
}

/// Waits for a probe.
async fn probe(breaker: &Arc<Breaker>) -> (BreakerPermit, Duration) {
    let start = Instant::now();
    loop {
        if let Some(permit) = breaker.admit() {
            return (permit, start.elapsed());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no probe is due");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_reply_opens_unless_another_call_was_answered() {
    let breaker = breaker();
    advance(DEADLINE).await;
    let (slow, good) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE / 2).await;
    good.answered();
    advance(DEADLINE / 2).await;
    slow.timed_out(None);
    assert!(breaker.is_closed() && breaker.outage().is_none());

    let unanswered = breaker.admit().unwrap();
    advance(DEADLINE).await;
    unanswered.timed_out(None);
    assert!(breaker.rejects_now());
    assert_eq!(breaker.outage(), Some(DEADLINE));
}

#[tokio::test(start_paused = true)]
async fn probes_are_single_and_rarer_until_one_is_answered() {
    let breaker = opened().await;
    for step in 0..12 {
        let (permit, waited) = probe(&breaker).await;
        let mean = interval(step);
        let most = mean * 3 / 2 + Duration::from_millis(2);
        assert!((mean / 2..=most).contains(&waited), "{step}: {waited:?} for {mean:?}");
        assert!(breaker.admit().is_none() && breaker.rejects_now());
        permit.timed_out(None);
        assert!(breaker.admit().is_none() && breaker.rejects_now());
    }
    assert_eq!(interval(11), Duration::from_millis(500));
    let (permit, _) = probe(&breaker).await;
    assert!(breaker.outage().unwrap() > Duration::from_secs(1));
    permit.answered();
    assert!(breaker.is_closed() && breaker.outage().is_none());
    assert!(breaker.admit().is_some() && breaker.admit().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_allows_another() {
    let breaker = opened().await;
    for _ in 0..3 {
        let (permit, waited) = probe(&breaker).await;
        assert!(waited <= Duration::from_millis(17), "{waited:?}");
        drop(permit);
    }
    probe(&breaker).await.0.answered();
    assert!(breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn any_reply_or_new_connection_closes_the_breaker() {
    let breaker = breaker();
    advance(DEADLINE).await;
    let (first, second) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE).await;
    first.timed_out(None);
    assert!(!breaker.is_closed());
    advance(DEADLINE).await;
    second.answered();
    assert!(breaker.is_closed());

    let breaker = opened().await;
    breaker.disconnected();
    assert!(breaker.connected() && breaker.is_closed() && breaker.outage().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refusing_server_is_probed_across_connections() {
    let breaker = breaker();
    advance(DEADLINE).await;
    breaker.admit().unwrap().refused(true);
    breaker.disconnected();
    assert!(!breaker.connected() && !breaker.is_closed());
    let (permit, _) = probe(&breaker).await;
    assert!(breaker.admit().is_none());
    permit.refused(true);
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
async fn an_outage_continues_through_connections_without_service() {
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
async fn exactly_one_of_many_tasks_probes() {
    let breaker = breaker();
    for _ in 0..20 {
        sleep(Duration::from_millis(1)).await;
        breaker.admit().unwrap().timed_out(None);
        let (passed, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        let end = Instant::now() + Duration::from_millis(60);
        for _ in 0..8 {
            let (breaker, passed, at_once) =
                (Arc::clone(&breaker), Arc::clone(&passed), Arc::clone(&at_once));
            tasks.spawn(async move {
                // On a busy machine a probe may come later.
                while Instant::now() < end || passed.load(Ordering::SeqCst) == 0 {
                    assert!(Instant::now() < end + Duration::from_secs(10), "no task probes");
                    if let Some(permit) = breaker.admit() {
                        assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        passed.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
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

/// It is not known whether the server answers as many calls in time.
#[tokio::test(start_paused = true)]
async fn answer_in_a_stall_is_no_timely_one() {
    let breaker = breaker();
    advance(DEADLINE).await;
    let (read_late, unanswered) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE * 2).await;
    read_late.answered_in_stall();
    assert_eq!(unanswered.timed_out(None), NoReply::Overload { all_late: true });
    assert!(breaker.is_closed() && breaker.outage().is_none());
    let (in_time, unanswered) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    advance(DEADLINE).await;
    in_time.answered();
    assert_eq!(unanswered.timed_out(None), NoReply::Overload { all_late: false });
}
