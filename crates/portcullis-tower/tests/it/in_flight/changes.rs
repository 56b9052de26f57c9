//! Policies that change while permits are held, and quotas of callers.

use std::sync::atomic::Ordering::Relaxed;

use http::request::Parts;
use portcullis_core::ManualClock;
use portcullis_memory::MemoryStore;
use portcullis_tower::{Header, PolicyExt as _, RateLimitLayer};
use tokio::sync::Notify;

use super::*;

impl Setup {
    /// Lets time pass, on both clocks.
    async fn run(&self, seconds: u64) {
        for _ in 0..seconds {
            self.store.micros.fetch_add(1_000_000, Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permits_outlive_the_name_of_their_policy() {
    let setup = Setup::new(Mode::Ready);
    let (response, charge) = tasks::charge_of(&setup.layer()).await;
    let permit = charge.take_permit().unwrap();
    drop((response, charge));
    // No layer has the name any more, so that it may be used for something else.
    let rate = Policy::gcra("exports", Quota::per_second(9));
    let _layer = RateLimitLayer::new(Arc::clone(&setup.registry), rate.by(Global));
    setup.run(60).await;
    assert_eq!((permit.has_lapsed(), setup.held().await, setup.seen()), (false, 1, Vec::new()));
    setup.store.set(Mode::Down);
    setup.run(31).await;
    assert!(permit.has_lapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_with_the_lease_of_before_shortens_no_other() {
    let setup = Setup::new(Mode::Ready);
    let (found, waits) = (Arc::new(Notify::new()), Arc::clone(&Arc::new(Notify::new())));
    let (find, wait) = (Arc::clone(&found), Arc::clone(&waits));
    let look_up = move |parts: &Parts| {
        let slow = parts.headers.contains_key("slow").then(|| (Arc::clone(&find), Arc::clone(&wait)));
        async move {
            if let Some((find, wait)) = slow {
                wait.notify_one();
                find.notified().await;
            }
            Ok(Lookup::found("tenant", "acme"))
        }
    };
    let exports = |seconds| Concurrency::new("exports", 2).lease(Duration::from_secs(seconds));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), exports(3).by_async(look_up));
    let layer = layer.lookup_deadline(Duration::from_secs(60));
    let send = |is_slow: bool| {
        let service = layer.layer(service_fn(|_: Request<String>| async {
            Ok::<_, Infallible>(Response::new(Steps::default()))
        }));
        let mut request = request();
        if is_slow {
            request.headers_mut().insert("slow", http::HeaderValue::from_static("1"));
        }
        async { service.oneshot(request).await.unwrap() }
    };
    let slow = tokio::spawn(send(true));
    waits.notified().await;
    setup.registry.set_policy(exports(300).policy()).unwrap();
    let first = send(false).await;
    setup.run(5).await;
    found.notify_one();
    let second = slow.await.unwrap();
    setup.run(20).await;
    assert_eq!(
        [first.status(), second.status(), send(false).await.status()].map(|status| status.as_u16()),
        [200, 200, 429]
    );
    assert_eq!(setup.seen(), Vec::<&str>::new());
}

fn memory() -> (Arc<Registry>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(Registry::new(Arc::new(store), Secret::published())), clock)
}

async fn status(layer: &RateLimitLayer) -> u16 {
    respond(layer, &[]).await.status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn a_permit_under_a_grant_is_released_by_the_lease_of_now() {
    let (registry, clock) = memory();
    let exports = |seconds| {
        Concurrency::new("exports", 1).lease(Duration::from_secs(seconds)).policy().allow_overrides()
    };
    let layer = RateLimitLayer::new(Arc::clone(&registry), exports(1).by(Global));
    registry.grant(&exports(1), global(), Quota::per_hour(2)).for_duration(LEASE).await.unwrap();
    let first = respond(&layer, &[]).await;
    registry.set_policy(exports(30)).unwrap();
    let second = respond(&layer, &[]).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16(), status(&layer).await), (200, 200, 429));
    drop(first);
    clock.advance(Duration::from_secs(2));
    let third = respond(&layer, &[]).await;
    assert_eq!((third.status().as_u16(), status(&layer).await), (200, 429), "the second one is still held");
}

#[tokio::test(start_paused = true)]
async fn a_grant_changes_the_number_of_permits_and_ends() {
    let (registry, clock) = memory();
    let exports = EXPORTS.policy().allow_overrides();
    let layer = RateLimitLayer::new(Arc::clone(&registry), exports.clone().by(Global));
    registry.grant(&exports, global(), Quota::per_hour(1_000)).for_duration(LEASE).await.unwrap();
    let mut responses = Vec::new();
    for _ in 0..7 {
        responses.push(respond(&layer, &[]).await);
    }
    for _ in 0..45 {
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // The grant has ended: seven are held of five.
    responses.truncate(5);
    assert_eq!(status(&layer).await, 429);
    responses.truncate(4);
    assert_eq!(status(&layer).await, 200);
    registry.block(&exports, global(), LEASE).await.unwrap();
    assert_eq!(status(&layer).await, 429);
    responses.clear();
    registry.unblock(&exports, global()).await.unwrap();
    let all = RateLimitLayer::new(registry, exports.by(Global).cost(LIMIT));
    responses.push(respond(&all, &[]).await);
    assert_eq!(responses[0].status(), 200, "a blocked key releases its permits");
}

#[tokio::test(start_paused = true)]
async fn callers_have_numbers_of_permits_of_their_own() {
    let (registry, clock) = memory();
    let of = |limit| Quota::per_second(limit);
    let exports = Concurrency::new("exports", 1).lease(LEASE).policy().caller_quotas(of(1), of(3));
    let limit = exports.by(Header::named("user"));
    let limit = limit.quota(move |parts: &Parts| parts.headers.contains_key("pro").then(|| of(3)));
    let layer = RateLimitLayer::new(registry, limit);
    let send = |is_pro: bool| {
        let service = layer.layer(service_fn(|_: Request<String>| async {
            Ok::<_, Infallible>(Response::new(Steps::default()))
        }));
        let mut request = request();
        request.headers_mut().insert("user", http::HeaderValue::from_static("ada"));
        if is_pro {
            request.headers_mut().insert("pro", http::HeaderValue::from_static("1"));
        }
        async { service.oneshot(request).await.unwrap() }
    };
    let first = send(false).await;
    assert_eq!((first.status().as_u16(), send(false).await.status().as_u16()), (200, 429));
    let more = [send(true).await, send(true).await];
    assert_eq!(more.each_ref().map(|response| response.status().as_u16()), [200, 200]);
    for _ in 0..45 {
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(send(true).await.status(), 429, "all are renewed");
    let [one, other] = more;
    drop(one);
    assert_eq!((send(true).await.status().as_u16(), send(false).await.status().as_u16()), (200, 429));
    drop((first, other));
    assert_eq!(send(false).await.status(), 200);
}

#[tokio::test]
async fn a_mode_that_changes_leaves_no_permit() {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer();
    let service = layer.layer(service_fn(|_: Request<String>| async {
        Ok::<_, Infallible>(Response::new(Steps::default()))
    }));
    let mut responses = Vec::new();
    for (mode, held) in [
        (portcullis_tower::Mode::Enforce, 1),
        (portcullis_tower::Mode::Off, 1),
        (portcullis_tower::Mode::Shadow, 2),
        (portcullis_tower::Mode::Enforce, 3),
    ] {
        setup.registry.set_mode(EXPORTS.policy().name(), mode).unwrap();
        responses.push(service.clone().oneshot(request()).await.unwrap());
        assert_eq!(setup.held().await, held, "{mode}");
    }
    setup.registry.set_mode(EXPORTS.policy().name(), portcullis_tower::Mode::Off).unwrap();
    responses.clear();
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"; 3]));
}
