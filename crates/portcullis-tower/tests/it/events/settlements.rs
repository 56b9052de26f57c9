//! Settlements that fail, are repeated or given up, and debts beyond their bound.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use http::Response;
use http_body_util::BodyExt as _;
use portcullis_tower::{Charge, Drained, RateLimit, Usage};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::*;

/// A service that uses 3 of the 10 units that it reserves, or this number.
fn using(
    observed: &Observed,
    units: u64,
) -> RateLimit<
    impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send> + Clone,
> {
    let layer = observed.layer_of(policy("tokens", 100_000).by(Global).reserve(10));
    layer.layer(service_fn(move |request: Request<String>| async move {
        request.extensions().get::<Usage>().unwrap().add(units);
        Ok::<_, Infallible>(Response::new(String::new()))
    }))
}

impl Observed {
    /// Reserves while the store answers, and settles in a mode of it. Returns the events of the settlement.
    async fn settles_in(&self, mode: Mode, units: u64) -> Vec<String> {
        self.store.set(Mode::Ready);
        let response = using(self, units).oneshot(request(&[])).await.unwrap();
        drop(self.events.take());
        self.store.set(mode);
        response.into_body().collect().await.unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.events.take()
    }

    /// The settlements that were given up, and their units.
    async fn lost(&self) -> (u64, u64) {
        let Drained { lost, lost_units, .. } = self.registry.drain(Duration::ZERO).await;
        (lost, lost_units)
    }

    async fn drained(&self, deadline: Duration) -> (usize, u64) {
        let Drained { left, units, .. } = self.registry.drain(deadline).await;
        (left, units)
    }

    fn settlements(&self) -> usize {
        self.store.settlements.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_was_not_made_is_repeated() {
    for (mode, event) in [
        (Mode::Down, "store failed Unavailable"),
        (Mode::DownLater, "store failed Unavailable"),
        (Mode::Overloaded, "store overloaded"),
    ] {
        let observed = Observed::new(mode);
        let [failed] = &observed.settles_in(mode, 3).await[..] else { panic!("one event") };
        assert!(failed.starts_with(event), "{failed}");
        tokio::time::sleep(Duration::from_millis(99)).await;
        assert_eq!(observed.settlements(), 1);
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(observed.settlements(), 2);
        drop(observed.events.take());
        observed.store.set(Mode::Ready);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(observed.events.take(), ["refunded 7 tokens:99997"]);
        assert_eq!(observed.drained(Duration::ZERO).await, (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_settlement_is_never_repeated() {
    let observed = Observed::new(Mode::Ready);
    let events = observed.settles_in(Mode::OvertakenLater, 3).await;
    assert_eq!(events, ["store overloaded", "lost 10 to 3 tokens: Unknown"]);
    observed.store.set(Mode::Ready);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((observed.settlements(), observed.drained(Duration::ZERO).await), (1, (0, 0)));
    assert_eq!(observed.lost().await, (1, 7));
    assert!(observed.events.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_settlement_is_given_up_after_its_attempts() {
    let observed = Observed::new(Mode::Ready);
    observed.settles_in(Mode::Down, 25).await;
    tokio::time::sleep(Duration::from_secs(92)).await;
    assert_eq!((observed.settlements(), observed.drained(Duration::ZERO).await), (15, (1, 15)));
    drop(observed.events.take());
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(observed.events.take().last().unwrap(), "lost 10 to 25 tokens: GivenUp");
    assert_eq!(observed.drained(Duration::ZERO).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_loses_settlements_with_an_event() {
    let observed = Observed::new(Mode::Ready);
    for _ in 0..1_024 {
        assert_eq!(observed.settles_in(Mode::Down, 3).await.len(), 1);
    }
    let events = observed.settles_in(Mode::Down, 3).await;
    assert_eq!(events[1..], ["lost 10 to 3 tokens: QueueFull"]);
    assert_eq!(observed.drained(Duration::ZERO).await, (1_024, 7 * 1_024));
    observed.store.set(Mode::Ready);
    assert_eq!(observed.drained(Duration::from_secs(1)).await, (0, 0));
    assert_eq!(observed.lost().await, (1, 7));
}

#[tokio::test(start_paused = true)]
async fn a_settlement_beyond_the_calls_in_progress_waits() {
    let observed = Observed::new(Mode::Ready);
    for _ in 0..1_024 {
        assert!(observed.settles_in(Mode::Never, 3).await.is_empty());
    }
    assert!(observed.settles_in(Mode::Later, 3).await.is_empty());
    assert_eq!(observed.settlements(), 1_024, "nothing is sent that nobody could wait for");
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert_eq!(observed.settlements(), 1_025);
    assert_eq!(observed.events.take().len(), 1);
    assert_eq!(observed.drained(Duration::ZERO).await, (1_024, 7 * 1_024));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_settlements_and_returns_what_is_left() {
    let observed = Observed::new(Mode::Ready);
    assert_eq!(observed.drained(Duration::from_secs(9)).await, (0, 0));
    observed.settles_in(Mode::Down, 3).await;
    observed.settles_in(Mode::Down, 30).await;
    assert_eq!(observed.drained(Duration::from_secs(600)).await, (2, 7 + 20), "attempts are not counted");
    assert!(observed.settlements() > 1_000, "one every 100 ms for each");
    let back = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        observed.store.set(Mode::Later);
    };
    assert_eq!(tokio::join!(observed.drained(Duration::from_secs(600)), back).0, (0, 0));
    let events = observed.events.take();
    assert!(events.iter().any(|event| event == "charged 20 tokens:99967"), "{events:?}");

    assert!(observed.settles_in(Mode::Never, 3).await.is_empty());
    assert_eq!(observed.drained(Duration::from_secs(5)).await, (1, 7), "a call without an answer");
}

#[tokio::test(start_paused = true)]
async fn polling_what_is_left_uses_up_no_attempt() {
    let observed = Observed::new(Mode::Ready);
    observed.settles_in(Mode::Down, 3).await;
    for _ in 0..50 {
        assert_eq!(observed.drained(Duration::ZERO).await, (1, 7));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(observed.settlements(), 1);
}

#[test]
fn a_drain_continues_when_another_runtime_ends() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let observed = Observed::new(Mode::Ready);
    let other = runtime();
    assert_eq!(other.block_on(observed.settles_in(Mode::Down, 3)).len(), 1);
    let left = runtime().block_on(async {
        let mut drain = std::pin::pin!(observed.drained(Duration::from_secs(60)));
        let pending = std::future::poll_fn(|cx| std::task::Poll::Ready(drain.as_mut().poll(cx).is_pending()));
        assert!(pending.await, "the task is in a runtime that does not run");
        observed.store.set(Mode::Ready);
        drop(tokio::task::spawn_blocking(move || drop(other)).await);
        drain.await
    });
    assert_eq!(left, (0, 0));
}

#[test]
fn settlements_that_end_with_the_runtime_are_unknown() {
    let observed = Observed::new(Mode::Ready);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(observed.settles_in(Mode::Never, 3)).is_empty());
    drop(runtime);
    assert_eq!(observed.events.take(), ["lost 10 to 3 tokens: Unknown"]);
}

#[test]
fn runtime_that_ends_leaves_repeats_to_another() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let observed = Observed::new(Mode::Ready);
    let ending = runtime();
    let response = ending.block_on(using(&observed, 3).oneshot(request(&[]))).unwrap();
    observed.store.set(Mode::Down);
    ending.block_on(async {
        tokio::spawn(async move {
            let _response = response;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
    });
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The response is dropped in a runtime that takes no task any more.
        drop(ending);
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(60)).expect("the runtime ends");
    observed.store.set(Mode::Ready);
    assert_eq!(runtime().block_on(observed.drained(Duration::from_secs(60))), (0, 0));
}

#[test]
fn without_a_runtime_only_ready_answers_settle() {
    let observed = Observed::new(Mode::Ready);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for (mode, expected) in [
        (Mode::Ready, "refunded 7 tokens:99997"),
        (Mode::Later, "lost 10 to 3 tokens: NoRuntime"),
        (Mode::Down, "store failed Unavailable true"),
    ] {
        observed.store.set(Mode::Ready);
        let response = runtime.block_on(using(&observed, 3).oneshot(request(&[]))).unwrap();
        drop(observed.events.take());
        observed.store.set(mode);
        drop(response);
        assert_eq!(observed.events.take(), [expected]);
    }
    observed.store.set(Mode::Ready);
    assert_eq!(runtime.block_on(observed.drained(Duration::from_secs(1))), (0, 0));
    assert_eq!(observed.events.take(), ["refunded 7 tokens:99991"], "the store had made the lost one");
}

#[tokio::test(start_paused = true)]
async fn units_beyond_the_debt_emit_an_event_and_a_log_line() {
    let (log, _guard) = log();
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let layer = observed.layer_of(policy("tokens", 10).by(Global).reserve(4));
        let service = layer.layer(service_fn(async |request: Request<String>| {
            request.extensions().get::<Usage>().unwrap().add(15);
            Ok::<_, Infallible>(Response::new(String::new()))
        }));
        let [first, second] =
            [service.clone().oneshot(request(&[])).await, service.oneshot(request(&[])).await];
        drop(observed.events.take());
        for (response, expected) in
            [(first, &["charged 11 tokens:0"][..]), (second, &["charged 1 tokens:0", "uncharged 10 tokens"])]
        {
            response.unwrap().into_body().collect().await.unwrap();
            assert_eq!(observed.drained(Duration::from_secs(1)).await, (0, 0));
            assert_eq!(observed.events.take(), expected, "{mode:?}");
        }
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "one for each layer: {lines:?}");
    assert!(lines[0].contains("exceed the debt") && lines[0].contains("uncharged=10"), "{}", lines[0]);
}

#[tokio::test]
async fn a_handler_beyond_the_debt_emits_the_event_too() {
    let observed = Observed::new(Mode::Ready);
    let layer = observed.layer(policy("tokens", 10), Global);
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        assert_eq!(charge.settle(23).await.unwrap().uncharged, 3);
        Ok::<_, Infallible>(Response::new(()))
    }));
    service.oneshot(request(&[])).await.unwrap();
    assert_eq!(observed.events.take(), ["admitted tokens:9", "charged 19 tokens:0", "uncharged 3 tokens"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_refunded_is_not_settled() {
    let observed = Observed::new(Mode::Ready);
    let tokens = policy("tokens", 100).by_async(tenants()).reserve(10);
    let layer = observed.layer_of(tokens).ready_deadline(Duration::from_secs(1));
    let known = request(&[("x-api-key", "known")]);
    let late = layer.layer(super::corrections::ReadyOnce(true)).oneshot(known).await.unwrap();
    assert_eq!(late.status(), 503);
    assert_eq!(observed.events.take(), ["not ready", "rejected Overloaded", "refunded 10 tokens:100"]);
    assert_eq!(observed.settlements(), 0);
}
