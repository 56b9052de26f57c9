//! Policies that are checked first and charged after the response.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use http::request::Parts;
use portcullis_tower::{Bearer, ClientIp, KeyError, Limit, Lookup, PolicyExt as _, RateLimitLayer, Reason};
use tower::Service as _;

use super::*;
use crate::probe;

fn looking(units: u64) -> Limit {
    limit_of(units).charge_when(is_refused).charge_after()
}

fn in_mode(mode: Mode) -> Arc<Registry> {
    let store = Arc::<TestStore>::default();
    store.set(mode);
    registry_of(store)
}

#[tokio::test]
async fn valid_requests_at_the_same_time_all_pass() {
    for mode in [Mode::Ready, Mode::Later] {
        let registry = in_mode(mode);
        let mut service = echo(&layer(&registry, looking(2).charge_after_at_most(20)));
        let mut renewals = Vec::new();
        for _ in 0..20 {
            renewals.push(tokio::spawn(service.ready().await.unwrap().call(request(200))));
        }
        for renewal in renewals {
            let response = renewal.await.unwrap().unwrap();
            assert_eq!((response.status().as_u16(), remaining(&response)), (200, 2));
        }
        assert_eq!(left(&registry, 2).await, 2);
    }
}

/// Sends 1 000 guesses, and returns how many reach the service.
async fn guesses_that_run(layer: &RateLimitLayer) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let number = counter.fetch_add(1, Relaxed);
        async move {
            for _ in 0..=number % 7 {
                tokio::task::yield_now().await;
            }
            Ok::<_, Infallible>(Response::builder().status(401).body(()).unwrap())
        }
    }));
    let send = || tokio::spawn(service.clone().oneshot(request(401)));
    let guesses: Vec<_> = (0..1_000).map(|_| send()).collect();
    for guess in guesses {
        let status = guess.await.unwrap().unwrap().status();
        assert!(status == 401 || status == 429);
    }
    count.load(Relaxed)
}

#[tokio::test]
async fn parallel_guesses_run_up_to_limit_and_bound() {
    for mode in [Mode::Ready, Mode::Later] {
        for (limit, bound) in [(5, None), (5, Some(1)), (1, Some(30)), (5, Some(0))] {
            let limited = looking(limit);
            let limited = bound.map_or(limited.clone(), |bound| limited.charge_after_at_most(bound));
            let layer = layer(&in_mode(mode), limited);
            let bound = bound.unwrap_or(5);
            let limit = usize::try_from(limit).unwrap();
            let ran = guesses_that_run(&layer).await;
            let most = if bound == 0 { 0 } else { limit + bound - 1 };
            assert!(ran <= most && ran >= bound.min(most), "{ran} of {limit} and {bound}, {mode:?}");
        }
    }
}

/// A request whose handler ends when its flag is set.
type Guess = (Arc<AtomicBool>, Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>>>>);

fn poll(guess: &mut Guess) -> Option<StatusCode> {
    match guess.1.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => Some(response.unwrap().status()),
        Poll::Pending => None,
    }
}

/// Starts, ends and drops guesses in a random order, and checks how many have run.
async fn random_guesses(seed: u64, mode: Mode) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (limit, bound) = (1 + rng.u64(..4), 1 + rng.u64(..4));
    let registry = in_mode(mode);
    let layer = layer(&registry, looking(limit).charge_after_at_most(usize::try_from(bound).unwrap()));
    let ran = Arc::new(AtomicUsize::new(0));
    let mut pending: Vec<Guess> = Vec::new();
    for _ in 0..200 {
        let index = rng.usize(..pending.len().max(1));
        match rng.u64(..4) {
            0 | 1 => {
                let (flag, ran) = (Arc::new(AtomicBool::new(false)), Arc::clone(&ran));
                let is_over = Arc::clone(&flag);
                let service = layer.layer(service_fn(move |_: Request<String>| {
                    ran.fetch_add(1, Relaxed);
                    let is_over = Arc::clone(&is_over);
                    std::future::poll_fn(move |_| {
                        if !is_over.load(Relaxed) {
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok::<_, Infallible>(Response::builder().status(401).body(()).unwrap()))
                    })
                }));
                let service = service.map_response(|response| response.map(drop));
                pending.push((flag, Box::pin(service.oneshot(request(401)))));
            }
            2 if !pending.is_empty() => drop(pending.swap_remove(index)),
            3 if !pending.is_empty() => pending[index].0.store(true, Relaxed),
            _ => {}
        }
        pending.retain_mut(|guess| poll(guess).is_none());
        if rng.u64(..2) == 0 {
            tokio::task::yield_now().await;
        }
    }
    let ran = u64::try_from(ran.load(Relaxed)).unwrap();
    assert!(ran < limit + bound, "{ran} of {limit} and {bound}, {seed}, {mode:?}");
    for (flag, _) in &pending {
        flag.store(true, Relaxed);
    }
    while !pending.is_empty() {
        pending.retain_mut(|guess| poll(guess).is_none());
    }
    // Each guess that ran is charged, however it ended.
    let expected = limit.saturating_sub(ran);
    eventually(async || left(&registry, limit).await == expected).await;
}

#[tokio::test]
async fn guesses_in_any_order_run_less_than_limit_and_bound() {
    for seed in 0..100 {
        for mode in [Mode::Ready, Mode::Later] {
            random_guesses(seed, mode).await;
        }
    }
}

#[tokio::test]
async fn an_exhausted_policy_rejects_until_a_unit_is_available() {
    for mode in [Mode::Ready, Mode::Later] {
        let registry = in_mode(mode);
        let policy = || Policy::gcra("guesses", Quota::per_minute(1).burst(2));
        let all = Policy::fixed_window("all", Quota::per_day(9));
        let first = all.by(Global);
        let guesses = Limit::new(policy()).charge_when(is_refused).charge_after();
        let service = echo(&layer(&registry, first.clone()).and(guesses));
        for (status, expected) in [(401, (401, 1)), (401, (401, 0)), (200, (429, 0)), (401, (429, 0))] {
            assert_eq!(send(&service, request(status)).await, expected, "{mode:?}");
        }
        let rejected = service.oneshot(request(200)).await.unwrap();
        assert_eq!(rejected.headers()["retry-after"], "60");
        assert_eq!(
            send(&echo(&layer(&registry, first.cost(0))), request(200)).await.1,
            7,
            "rejected requests are refunded"
        );
    }
}

#[tokio::test]
async fn a_request_is_charged_whether_it_fits_or_not() {
    let registry = registry();
    let policy = Policy::gcra("guesses", Quota::per_second(1).burst(2));
    let limit = policy.by(Global).cost(2).charge_when(is_refused).charge_after_at_most(3);
    let mut service = echo(&layer(&registry, limit));
    let mut guesses = Vec::new();
    for _ in 0..3 {
        guesses.push(service.ready().await.unwrap().call(request(401)));
    }
    for guess in guesses {
        assert_eq!(remaining(&guess.await.unwrap()), 0);
    }
    let rejected = service.oneshot(request(200)).await.unwrap();
    assert_eq!(rejected.headers()["retry-after"], "3", "the debt is one burst at most");
}

#[tokio::test]
async fn without_a_closure_every_response_is_charged() {
    let service = echo(&layer(&registry(), limit_of(2).charge_after()));
    for (status, expected) in [(200, (200, 1)), (500, (500, 0)), (200, (429, 0))] {
        assert_eq!(send(&service, request(status)).await, expected);
    }
}

#[tokio::test]
async fn a_cost_of_zero_needs_no_permit() {
    let service = echo(&layer(&registry(), looking(1).charge_after_at_most(0).cost(0)));
    assert_eq!(send(&service, request(401)).await, (401, 1));
}

#[tokio::test]
async fn more_unsettled_requests_are_rejected_without_a_wait() {
    let registry = registry();
    let events = Recorder::new(&registry);
    let seen = Arc::new(Mutex::new(None));
    let reason = Arc::clone(&seen);
    let full = layer(&registry, looking(2).charge_after_at_most(0));
    let custom = full.clone().reject_with(move |rejection| {
        *reason.lock().unwrap() = Some((rejection.reason(), rejection.decisions().len()));
        rejection.response()
    });
    let (service, probe) = probe::probed(&custom);
    let answer = probe::send(&service, probe::request(&[("accept", "application/json")])).await;
    assert_eq!(
        (answer.status, answer.header("retry-after"), answer.header("cache-control")),
        (429, None, Some("no-store"))
    );
    assert_eq!(answer.header("x-ratelimit-remaining"), None);
    let expected = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"#,
        r#""detail":"too many requests are in progress","violated-policies":["guesses"]}"#,
        "\n"
    );
    assert_eq!(answer.text, expected);
    assert_eq!(*seen.lock().unwrap(), Some((Reason::Unsettled, 0)));
    let text = probe::send(&probe::probed(&full).0, probe::request(&[])).await;
    assert_eq!(text.text, "too many requests are in progress\n");
    let grpc = probe::send(&probe::probed(&full).0, probe::grpc(&[])).await;
    assert_eq!((grpc.header("grpc-status"), grpc.header("grpc-retry-pushback-ms")), (Some("8"), None));
    assert_eq!((probe.calls(), left(&registry, 2).await), (0, 2));
    assert_eq!(events.take(), ["too many unsettled", "rejected"].repeat(3));
}

#[tokio::test]
async fn a_rejected_request_keeps_no_permit() {
    let registry = registry();
    let tight = Policy::fixed_window("tight", Quota::per_day(1));
    let two = Policy::fixed_window("two", Quota::per_day(9));
    let one = layer(&registry, looking(9).charge_after_at_most(1));
    let none = one.clone().and(Limit::new(two).charge_after_at_most(0));
    for _ in 0..3 {
        assert_eq!(echo(&none).oneshot(request(200)).await.unwrap().status(), 429);
    }
    let tight = one.clone().and(tight);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(echo(&tight).oneshot(request(200)).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 429, 429]);
    assert_eq!(send(&echo(&one), request(200)).await, (200, 9));
}

#[tokio::test]
async fn a_rejected_identity_is_charged_by_address() {
    let registry = registry();
    let address = Policy::fixed_window("guesses", Quota::per_day(2));
    let users = Policy::fixed_window("users", Quota::per_day(9));
    let layer =
        RateLimitLayer::new(registry, address.by(ClientIp::peer()).charge_when(is_refused).charge_after());
    let service = echo(&layer.and(users.by(Bearer)));
    for expected in [401, 401, 429] {
        let mut request = request(200);
        request.extensions_mut().insert(std::net::SocketAddr::from(([192, 0, 2, 1], 1024)));
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), expected);
    }
}

fn keys(parts: &Parts) -> impl Future<Output = Result<Lookup, KeyError>> + Send + use<> {
    let key = parts.headers.get("x-api-key").map(|key| key.to_str().unwrap().to_owned());
    async move {
        tokio::task::yield_now().await;
        match key.as_deref() {
            Some("slow") => std::future::pending().await,
            Some("acme") => Ok(Lookup::found("tenant", "acme")),
            _ => Err(KeyError::client("unknown")),
        }
    }
}

fn with_key(key: &'static str) -> Request<String> {
    let mut request = request(200);
    request.headers_mut().insert("x-api-key", http::HeaderValue::from_static(key));
    request
}

#[tokio::test]
async fn guessed_keys_that_are_looked_up_are_charged() {
    for mode in [Mode::Ready, Mode::Later] {
        let registry = in_mode(mode);
        let tenants = Policy::fixed_window("tenants", Quota::per_day(1));
        let layer = layer(&registry, looking(9).count_rejections().charge_after_at_most(1));
        let mut service = echo(&layer.and(tenants.by_async(keys)));
        let status = async |key| service.clone().oneshot(with_key(key)).await.unwrap().status().as_u16();
        assert_eq!(status("guess").await, 400);
        eventually(async || left(&registry, 9).await == 8).await;
        // A client that leaves during the look-up is charged as well.
        let slow = tokio::spawn(service.clone().oneshot(with_key("slow")));
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        slow.abort();
        eventually(async || left(&registry, 9).await == 7).await;
        // A request that is admitted, or limited by a policy, is not.
        assert_eq!([status("acme").await, status("acme").await], [200, 429]);
        assert_eq!(left(&registry, 9).await, 7);
        assert!(service.ready().await.is_ok());
    }
}

#[tokio::test]
async fn a_policy_whose_key_is_looked_up_may_charge_after() {
    for mode in [Mode::Ready, Mode::Later] {
        let registry = in_mode(mode);
        let all = Policy::fixed_window("all", Quota::per_day(9));
        let tenants = Policy::fixed_window("tenants", Quota::per_day(1));
        let first = all.by(Global);
        let tenants = tenants.by_async(keys).charge_when(is_refused).charge_after();
        let both = |tenants: Limit| layer(&registry, first.clone()).and(tenants);
        let send = async |layer: &RateLimitLayer, status: u16| {
            let (parts, _) = with_key("acme").into_parts();
            let request = Request::from_parts(parts, status.to_string());
            echo(layer).oneshot(request).await.unwrap().status().as_u16()
        };
        let one = both(tenants.clone());
        let statuses = [send(&one, 200).await, send(&one, 401).await, send(&one, 200).await];
        assert_eq!(statuses, [200, 401, 429], "{mode:?}");
        assert_eq!(send(&both(tenants.charge_after_at_most(0)), 200).await, 429);
        assert_eq!(
            super::send(&echo(&layer(&registry, first.clone().cost(0))), request(200)).await.1,
            7,
            "rejections are refunded"
        );
    }
}
