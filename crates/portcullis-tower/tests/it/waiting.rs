//! Requests that wait: for a slot in a queue, for a look-up, and then for the inner service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    ClientIp, Global, Header, KeyExtractor, Lookup, PolicyExt as _, RateLimitLayer, Registry,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::log::log;
use crate::probe::{Probe, probed, request, send};
use crate::rejections::{MODES, from, left, policy, status, store};
use crate::support::Mode;

/// Lets one request through per second, and keeps five in its queue.
fn queue(registry: &Arc<Registry>, key: impl KeyExtractor) -> RateLimitLayer {
    let policy = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    RateLimitLayer::new(Arc::clone(registry), policy.by(key))
}

/// A layer whose look-ups complete when `found` is notified.
fn slow(registry: &Arc<Registry>, found: &Arc<Notify>) -> RateLimitLayer {
    let found = Arc::clone(found);
    RateLimitLayer::new(Arc::clone(registry), policy("address", 999).by(ClientIp::peer())).and(
        policy("tenants", 999).by_async(move |_: &Parts| {
            let found = Arc::clone(&found);
            async move {
                found.notified().await;
                Ok(Lookup::found("tenant", "acme"))
            }
        }),
    )
}

fn user(name: &str) -> Request<String> {
    request(&[("x-user", name)])
}

/// Calls the service and awaits the response in a task: its status, and the time in milliseconds until it came.
async fn spawn<S, B>(service: &mut S, request: Request<String>) -> JoinHandle<(u16, u128)>
where
    S: Service<Request<String>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: std::fmt::Debug + Send + 'static,
    B: Send + 'static,
{
    let start = Instant::now();
    let response = service.ready().await.unwrap().call(request);
    tokio::spawn(async move { (response.await.unwrap().status().as_u16(), start.elapsed().as_millis()) })
}

async fn answers(responses: Vec<JoinHandle<(u16, u128)>>) -> Vec<(u16, u128)> {
    let mut answers = Vec::new();
    for response in responses {
        answers.push(response.await.unwrap());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_keeps_no_instance_ready() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let semaphore = Arc::new(Semaphore::new(1));
        let inner = GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&semaphore));
        let mut service = queue(&registry, Header::named("x-user")).layer(inner.layer(Probe::default()));
        let mut queued = Vec::new();
        for _ in 0..5 {
            queued.push(spawn(&mut service, user("ada")).await);
            tokio::task::yield_now().await;
        }
        for name in ["bob", "eve"] {
            assert_eq!(spawn(&mut service, user(name)).await.await.unwrap(), (200, 0), "{mode:?}");
        }
        assert_eq!(answers(queued).await, [0, 1_000, 2_000, 3_000, 4_000].map(|slot| (200, slot)));
        assert_eq!(semaphore.available_permits(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_keeps_no_instance_ready_during_a_wait() {
    let (_, registry) = store(Mode::Ready);
    let semaphore = Arc::new(Semaphore::new(1));
    let inner = GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&semaphore));
    let found = Arc::<Notify>::default();
    let mut queue = queue(&registry, Global).layer(inner.layer(Probe::default()));
    let mut slow = slow(&registry, &found).layer(inner.layer(Probe::default()));
    let first = queue.ready().await.unwrap().call(user("ada")).await.unwrap();
    assert_eq!(first.status(), 200);
    let delayed = queue.ready().await.unwrap().call(user("ada"));
    assert_eq!(semaphore.available_permits(), 1, "as soon as it is called");
    let looked_up = slow.ready().await.unwrap().call(from(1, &[]));
    assert_eq!(semaphore.available_permits(), 1);
    found.notify_one();
    let (delayed, looked_up) = tokio::join!(delayed, looked_up);
    assert_eq!([delayed.unwrap().status(), looked_up.unwrap().status()], [200, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_gets_ready_too_late_is_503_and_refunded() {
    for (mode, deadline, millis, with_charge) in [
        (Mode::Ready, None, 5_000, true),
        (Mode::Later, Some(300), 300, true),
        (Mode::Ready, Some(300), 300, false),
        (Mode::Later, None, 5_000, false),
    ] {
        let (_, registry) = store(mode);
        let (log, _guard) = log();
        let semaphore = Arc::new(Semaphore::new(1));
        let inner = GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&semaphore));
        let found = Arc::<Notify>::default();
        let mut layer = slow(&registry, &found).lookup_deadline(Duration::MAX);
        if let Some(deadline) = deadline {
            layer = layer.ready_deadline(Duration::from_millis(deadline));
        }
        if with_charge {
            layer = layer.with_charge();
        }
        let probe = Probe::default();
        let mut service = layer.layer(inner.layer(probe.clone()));
        let waiting = spawn(&mut service, from(1, &[])).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let busy = semaphore.try_acquire().unwrap();
        found.notify_one();
        assert_eq!(waiting.await.unwrap(), (503, millis + 1), "{mode:?}");
        assert_eq!(probe.calls(), 0);
        assert_eq!(left(&registry, policy("address", 999), ClientIp::peer(), from(1, &[])).await, "999");
        let lines = log.lines();
        assert!(lines.len() == 1 && lines[0].contains("the inner service is not ready"), "{lines:?}");

        drop(busy);
        let waiting = spawn(&mut service, from(1, &[])).await;
        found.notify_one();
        assert_eq!(waiting.await.unwrap(), (200, 0));
    }
}

/// A service that fails to become ready once the flag is set.
#[derive(Clone)]
struct Fails(Arc<AtomicBool>);

impl Service<Request<String>> for Fails {
    type Response = Response<Full<bytes::Bytes>>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(if self.0.load(Relaxed) { Err("broken") } else { Ok(()) })
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        unreachable!("it is never ready")
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_while_getting_ready_is_returned_and_refunded() {
    for (mode, with_charge) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let (_, registry) = store(mode);
        let (found, fails) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
        let layer = slow(&registry, &found);
        let layer = if with_charge { layer.with_charge() } else { layer };
        let mut service = layer.layer(Fails(Arc::clone(&fails)));
        let response = tokio::spawn(service.ready().await.unwrap().call(from(1, &[])));
        tokio::time::sleep(Duration::from_millis(1)).await;
        fails.store(true, Relaxed);
        found.notify_one();
        assert_eq!(response.await.unwrap().err(), Some("broken"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(left(&registry, policy("address", 999), ClientIp::peer(), from(1, &[])).await, "999");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_bounded_per_key_and_in_total() {
    for mode in MODES {
        let (_, registry) = store(mode);
        registry.max_waiting_requests(32);
        let (log, _guard) = log();
        let found = Arc::<Notify>::default();
        let (mut service, probe) = probed(&slow(&registry, &found));
        let mut waiting = Vec::new();
        for host in [1, 1, 2, 2] {
            waiting.push(spawn(&mut service, from(host, &[])).await);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let answer = send(&service, from(1, &[])).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, None), "{mode:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), None);
        assert_eq!(left(&registry, policy("address", 999), ClientIp::peer(), from(1, &[])).await, "997");

        for host in (3..17).flat_map(|host| [host, host]) {
            waiting.push(spawn(&mut service, from(host, &[])).await);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(send(&service, from(99, &[])).await.status, 503, "32 others wait");
        let lines = log.lines();
        assert!(lines.len() == 1 && lines[0].contains("too many requests wait"), "{lines:?}");

        found.notify_waiters();
        assert!(answers(waiting).await.iter().all(|(status, _)| *status == 200));
        assert_eq!(probe.calls(), 32);
        let again = spawn(&mut service, from(1, &[])).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        found.notify_waiters();
        assert_eq!(again.await.unwrap().0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_key_counts_in_total_only() {
    let (_, registry) = store(Mode::Ready);
    registry.max_waiting_requests(4);
    let (mut service, _) = probed(&queue(&registry, Global));
    let mut queued = Vec::new();
    for _ in 0..5 {
        queued.push(spawn(&mut service, user("ada")).await);
    }
    assert_eq!(answers(queued).await.last(), Some(&(200, 4_000)));

    let (_, registry) = store(Mode::Ready);
    registry.max_waiting_requests(4);
    let layer = queue(&registry, Global).and(policy("users", 99).by(Header::named("x-user")));
    let (mut service, _) = probed(&layer);
    let mut queued = Vec::new();
    // The first request does not wait.
    for name in ["ada", "ada", "ada", "bob", "eve"] {
        queued.push(spawn(&mut service, user(name)).await);
    }
    let statuses: Vec<_> = answers(queued).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [200, 200, 503, 200, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_permit_gives_its_slot_up() {
    for mode in MODES {
        let (_, registry) = store(mode);
        registry.max_waiting_requests(0);
        let layer = queue(&registry, Global);
        assert_eq!(status(&layer, user("ada")).await, 200, "no request has to wait yet");
        for _ in 0..20 {
            assert_eq!(status(&layer, user("ada")).await, 503);
            // The slot is refunded in the background.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        registry.max_waiting_requests(16);
        let (mut service, _) = probed(&layer);
        assert_eq!(spawn(&mut service, user("ada")).await.await.unwrap(), (200, 1_000), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_behind_a_look_up_charges_nothing() {
    let (store, registry) = store(Mode::Ready);
    registry.max_waiting_requests(32);
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        queue.by_async(|_: &Parts| async { Ok(Lookup::found("tenant", "acme")) }),
    );
    let (mut service, _) = probed(&layer);
    let mut waiting = Vec::new();
    // The first one does not wait.
    for _ in 0..3 {
        waiting.push(spawn(&mut service, user("ada")).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = store.asked.load(Relaxed);
    assert_eq!(spawn(&mut service, user("ada")).await.await.unwrap().0, 503);
    assert_eq!(store.asked.load(Relaxed), before, "the store is not asked");
    assert!(answers(waiting).await.iter().all(|(status, _)| *status == 200));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_look_up_without_a_permit_is_skipped() {
    let (_, registry) = store(Mode::Ready);
    registry.max_waiting_requests(0);
    let pending = |_: &Parts| std::future::pending();
    let layer = RateLimitLayer::new(registry, policy("planned", 9).by_async(pending).shadow())
        .and(policy("all", 9).by(Global));
    let start = Instant::now();
    assert_eq!(status(&layer, user("ada")).await, 200);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_of_both_decisions_is_waited_for() {
    let (store, registry) = store(Mode::Ready);
    let first = || Policy::leaky_bucket("first", Quota::per_second(1).burst(9));
    let second = || Policy::leaky_bucket("second", Quota::per_minute(60).burst(9));
    let found = |_: &Parts| async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(Lookup::found("tenant", "acme"))
    };
    let fill = |policy: Policy, units: u64| {
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy.by(Global).cost(units));
        async move { status(&layer, user("ada")).await }
    };
    let layer = RateLimitLayer::new(Arc::clone(&registry), first().by(Global)).and(second().by_async(found));
    let (mut service, _) = probed(&layer);
    assert_eq!(fill(first(), 3).await, 200);
    // The slot of the first is 3 s after its decision, not 3 s after the look-up.
    assert_eq!(spawn(&mut service, user("ada")).await.await.unwrap(), (200, 3_000));
    store.micros.store(60_000_000, Relaxed);
    let mut last = 0;
    for _ in 0..3 {
        last = spawn(&mut service, user("ada")).await.await.unwrap().1;
    }
    assert_eq!(last, 2_400, "the second decides 400 ms later");
}
