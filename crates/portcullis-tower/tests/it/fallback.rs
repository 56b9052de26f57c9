//! A store that cannot answer, with a fallback.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::{Clock, Decision, FailureMode, Policy, Quota, Secret, Timestamp};
use portcullis_memory::Fallback;
use portcullis_tower::{Charge, Global, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry, Shadow};
use tower::{Layer as _, ServiceExt as _};

use crate::log::log;
use crate::probe::{grpc, probed, request, send};
use crate::support::{Mode, TestStore};

const DOWN: [Mode; 2] = [Mode::Down, Mode::DownLater];

/// The clock of a store that is set by hand.
struct StoreClock(Arc<TestStore>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.micros.load(Ordering::Relaxed))
    }
}

fn setup() -> (Arc<TestStore>, Arc<Registry>) {
    let store = Arc::<TestStore>::default();
    let fallback = Fallback::builder(Arc::clone(&store)).clock(StoreClock(Arc::clone(&store))).build();
    (store, Arc::new(Registry::new(Arc::new(fallback), Secret::published())))
}

fn wait(store: &TestStore, seconds: u64) {
    store.micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
}

fn policy(name: &'static str, limit: u64, answer: FailureMode) -> Policy {
    Policy::fixed_window(name, Quota::per_hour(limit)).on_store_failure(answer)
}

/// 8 per hour, and 4 for each of two instances.
fn local() -> Policy {
    policy("local", 8, FailureMode::local(2))
}

fn open() -> Policy {
    policy("open", 2, FailureMode::Open)
}

fn open_for(seconds: u64) -> Policy {
    policy("open for", 100, FailureMode::OpenFor(Duration::from_secs(seconds)))
}

fn closed() -> Policy {
    policy("closed", 100, FailureMode::Closed)
}

fn limit(registry: &Arc<Registry>, policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), policy.by(Global)).with_charge()
}

const DEGRADED: &str = "x-ratelimit-degraded: true";

#[tokio::test]
async fn a_local_policy_is_limited_by_its_share() {
    for mode in DOWN {
        let (store, registry) = setup();
        let (service, probe) = probed(&limit(&registry, local()).decision_in_response());
        store.set(mode);
        for left in (0..4).rev() {
            let answer = send(&service, request(&[])).await;
            let left = format!("x-ratelimit-remaining: {left}");
            let headers = [DEGRADED, "x-ratelimit-limit: 4", &left, "x-ratelimit-reset: 3600"];
            assert_eq!((answer.status, answer.all_headers()), (200, headers.map(str::to_owned).to_vec()));
            assert!(answer.seen.unwrap().is_degraded() && answer.in_response.unwrap().is_degraded());
        }
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3600")));
        assert_eq!(answer.text, "rate limit exceeded: retry after 3600 s\n");
        assert_eq!(answer.header("x-ratelimit-degraded"), Some("true"));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("4"));

        let answer = send(&service, grpc(&[])).await;
        assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("8")));
        assert_eq!(answer.header("grpc-retry-pushback-ms"), Some("3600000"));
        assert_eq!(answer.header("x-ratelimit-degraded"), Some("true"));
        assert_eq!(probe.calls(), 4);

        // The store has recovered, and counted none of these requests.
        store.set(Mode::Ready);
        let answer = send(&service, grpc(&[])).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("7"));
        assert_eq!(answer.header("x-ratelimit-degraded"), None);
    }
}

#[tokio::test]
async fn the_default_mode_enforces_the_whole_limit_locally() {
    for mode in DOWN {
        let (store, registry) = setup();
        let (service, probe) = probed(&limit(&registry, Policy::fixed_window("default", Quota::per_hour(8))));
        store.set(mode);
        for left in (0..8).rev() {
            let answer = send(&service, request(&[])).await;
            let left = format!("x-ratelimit-remaining: {left}");
            let headers = [DEGRADED, "x-ratelimit-limit: 8", &left, "x-ratelimit-reset: 3600"];
            assert_eq!((answer.status, answer.all_headers()), (200, headers.map(str::to_owned).to_vec()));
        }
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.header("retry-after"), probe.calls()), (429, Some("3600"), 8));
    }
}

#[tokio::test]
async fn disabled_headers_do_not_show_an_outage() {
    let (store, registry) = setup();
    let (service, _) = probed(&limit(&registry, local()).headers(RateLimitHeaders::NONE));
    store.set(Mode::Down);
    for status in [200, 200, 200, 200, 429] {
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-degraded")), (status, None));
    }
}

#[tokio::test]
async fn a_cost_beyond_the_share_answers_503_and_not_400() {
    let (store, registry) = setup();
    let (service, _) = probed(&RateLimitLayer::new(registry, local().by(Global).cost(5)).with_charge());
    assert_eq!(send(&service, request(&[])).await.status, 200);
    store.set(Mode::Down);
    assert_eq!(send(&service, request(&[])).await.status, 503);
    assert_eq!(send(&service, grpc(&[])).await.header("grpc-status"), Some("14"));
}

#[tokio::test]
async fn without_a_fallback_local_and_open_for_are_closed() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let by_default = Policy::fixed_window("default", Quota::per_hour(8));
    for policy in [by_default, local(), open_for(60)] {
        let registry = crate::support::registry_of(Arc::clone(&store));
        let (service, probe) = probed(&limit(&registry, policy));
        assert_eq!((send(&service, request(&[])).await.status, probe.calls()), (503, 0));
    }
}

#[tokio::test]
async fn policies_with_different_failure_modes_combine() {
    for mode in DOWN {
        let (store, registry) = setup();
        store.set(mode);
        for layer in [
            limit(&registry, local()).and(closed()),
            limit(&registry, closed()).and(open_for(60)).and(local()),
        ] {
            let (service, probe) = probed(&layer);
            assert_eq!((send(&service, request(&[])).await.status, probe.calls()), (503, 0));
        }
        let (service, _) = probed(&limit(&registry, open()).and(open_for(60)));
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.all_headers()), (200, vec![DEGRADED.to_owned()]));

        // Nothing was charged so far, and only the limited policy has figures.
        let (service, _) = probed(&limit(&registry, open()).and(local()).and(open_for(60)));
        for left in ["3", "2", "1", "0"] {
            let answer = send(&service, request(&[])).await;
            assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some(left)));
            assert_eq!(answer.seen.unwrap().policy().as_str(), "local");
        }
        assert_eq!(send(&service, request(&[])).await.status, 429);
    }
}

#[tokio::test]
async fn open_for_closes_after_its_time() {
    let (store, registry) = setup();
    let (service, _) = probed(&limit(&registry, open_for(60)));
    for _ in 0..2 {
        store.set(Mode::Down);
        for _ in 0..2 {
            let answer = send(&service, request(&[])).await;
            assert_eq!((answer.status, answer.all_headers()), (200, vec![DEGRADED.to_owned()]));
            wait(&store, 30);
        }
        assert_eq!(send(&service, request(&[])).await.status, 503);
        assert_eq!(send(&service, grpc(&[])).await.header("grpc-status"), Some("14"));
        store.set(Mode::Ready);
        assert_eq!(send(&service, request(&[])).await.header("x-ratelimit-degraded"), None);
    }
}

/// Runs `work` in a handler, and returns the headers of the response.
async fn work(layer: &RateLimitLayer, work: impl AsyncFnOnce(Charge)) -> Vec<String> {
    let work = Arc::new(Mutex::new(Some(work)));
    let service = layer.layer(tower::service_fn(move |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap().clone();
        let work = work.lock().unwrap().take().unwrap();
        async move {
            work(charge).await;
            Ok::<_, Infallible>(Response::new(()))
        }
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    let figures = ["degraded", "remaining"].map(|name| response.headers().get(format!("x-ratelimit-{name}")));
    figures.into_iter().flatten().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn figures(decisions: &[Decision]) -> Vec<(bool, u64)> {
    decisions.iter().map(|decision| (decision.is_degraded(), decision.remaining())).collect()
}

#[tokio::test]
async fn local_charges_are_corrected_locally_after_recovery() {
    let (store, registry) = setup();
    let layer = limit(&registry, local());
    // Charges of another request, which no refund may change.
    work(&layer, async |charge| drop(charge.charge_more(4).await.unwrap())).await;

    store.set(Mode::Down);
    let headers_after = work(&layer, async |charge| {
        assert_eq!(charge.charge_more(1).await.unwrap().remaining(), 2);
        store.set(Mode::Ready);
        charge.refund().await.unwrap();
        assert_eq!(figures(&charge.decisions()), [(true, 4)]);
    });
    assert_eq!(headers_after.await, ["true", "4"]);
    let headers_after = work(&layer, async |charge| {
        assert_eq!(figures(&charge.decisions()), [(false, 2)]);
    });
    assert_eq!(headers_after.await, ["2"]);

    // Later charges after the recovery are made at the store, and each part is refunded where it was charged.
    store.set(Mode::Down);
    let headers_after = work(&layer, async |charge| {
        store.set(Mode::Ready);
        assert_eq!(figures(&[charge.charge_more(2).await.unwrap()]), [(false, 0)]);
        charge.refund().await.unwrap();
    });
    headers_after.await;
    assert_eq!(work(&layer, async |_| ()).await, ["1"]);
    store.set(Mode::Down);
    assert_eq!(work(&layer, async |_| ()).await, ["true", "3"]);

    // A charge of the store is not refunded locally.
    store.set(Mode::Ready);
    work(&layer, async |charge| {
        store.set(Mode::Down);
        assert!(charge.refund().await.is_err());
    })
    .await;
    assert_eq!(work(&layer, async |_| ()).await, ["true", "2"]);
}

#[tokio::test]
async fn a_local_charge_of_nothing_is_settled_upward_locally() {
    let (store, registry) = setup();
    let layer = RateLimitLayer::new(registry, local().by(Global).cost(0)).with_charge();
    store.set(Mode::Down);
    let headers_after = work(&layer, async |charge| {
        let settlement = charge.settle(3).await.unwrap();
        assert_eq!(figures(&[settlement.decision]), [(true, 1)]);
        store.set(Mode::Ready);
    });
    assert_eq!(headers_after.await, ["true", "1"]);
    assert_eq!(work(&layer, async |_| ()).await, ["8"]);
}

#[tokio::test]
async fn a_handler_charges_only_policies_that_count() {
    let (store, registry) = setup();
    let layer = limit(&registry, open()).and(local());
    store.set(Mode::Down);
    work(&layer, async |charge| {
        assert_eq!(figures(&charge.decisions()), [(true, 2), (true, 3)]);
        assert!(charge.for_policy("open").unwrap().charge_more(9).await.unwrap().is_allowed());
        let more = charge.charge_more(1).await.unwrap();
        assert_eq!((more.policy().as_str(), more.remaining()), ("local", 2));
        store.set(Mode::Ready);
        // The store counts under "local" alone.
        let more = charge.charge_more(8).await.unwrap();
        assert_eq!((more.policy().as_str(), more.remaining(), more.is_degraded()), ("local", 0, false));
        charge.settle(20).await.unwrap();
    })
    .await;
    let (service, _) = probed(&limit(&registry, open()));
    assert_eq!(send(&service, request(&[])).await.header("x-ratelimit-remaining"), Some("1"));

    // The reverse order: the store counted both, and then one is open.
    let (store, registry) = setup();
    let layer = limit(&registry, open()).and(local());
    work(&layer, async |charge| {
        store.set(Mode::Down);
        let more = charge.charge_more(1).await.unwrap();
        assert_eq!((more.policy().as_str(), more.remaining()), ("local", 3));
        store.set(Mode::Ready);
        charge.refund().await.unwrap();
        assert_eq!(figures(&charge.decisions()), [(false, 2), (false, 8)]);
    })
    .await;
    store.set(Mode::Down);
    assert_eq!(work(&layer, async |_| ()).await, ["true", "3"]);
}

#[tokio::test]
async fn without_a_count_nothing_is_charged_or_settled() {
    let (store, registry) = setup();
    let layer = limit(&registry, open_for(60)).and(open());
    store.set(Mode::Down);
    let headers_after = work(&layer, async |charge| {
        store.set(Mode::Ready);
        let more = charge.charge_more(1).await.unwrap();
        assert!(more.is_allowed() && more.is_degraded() && !more.is_metered());
        let settlement = charge.settle(50).await.unwrap();
        assert!(settlement.decision.is_degraded() && settlement.uncharged == 0);
    });
    assert_eq!(headers_after.await, ["true"]);
    let seen =
        work(&layer, async |charge| assert_eq!(figures(&charge.decisions()), [(false, 99), (false, 1)]));
    assert_eq!(seen.await, ["1"]);
}

#[tokio::test]
async fn a_shadow_is_charged_locally_once_and_never_rejects() {
    for mode in DOWN {
        let (store, registry) = setup();
        let planned = policy("planned", 4, FailureMode::local(2));
        let layer = limit(&registry, local()).and(planned.by(Global).shadow());
        store.set(mode);
        let service = layer.layer(tower::service_fn(async |request: Request<String>| {
            let shadow = request.extensions().get::<Shadow>().unwrap().decisions().to_vec();
            let mut response = Response::new(());
            response.extensions_mut().insert(shadow);
            Ok::<_, Infallible>(response)
        }));
        let mut seen = Vec::new();
        for _ in 0..3 {
            let response = service.clone().oneshot(Request::new(String::new())).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["x-ratelimit-degraded"], "true");
            let remaining = response.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned();
            let shadow = response.extensions().get::<Vec<Decision>>().unwrap();
            let [planned] = &shadow[..] else { panic!("there is one shadow policy") };
            assert!(planned.is_degraded());
            seen.push((remaining, planned.is_allowed(), planned.remaining()));
        }
        let expected = [("3", true, 1), ("2", true, 0), ("1", false, 0)];
        assert_eq!(seen, expected.map(|(left, allowed, planned)| (left.to_owned(), allowed, planned)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_lists_failure_modes_once_per_transition() {
    let (store, registry) = setup();
    let (log, _guard) = log();
    let planned = Policy::fixed_window("planned", Quota::per_hour(100));
    let layer = limit(&registry, open_for(60)).and(local()).and(planned.by(Global).shadow());
    let (service, _) = probed(&layer);
    for _ in 0..2 {
        for mode in [Mode::Down, Mode::DownLater, Mode::Ready] {
            store.set(mode);
            for _ in 0..3 {
                send(&service, request(&[])).await;
                wait(&store, 15);
                tokio::time::advance(Duration::from_millis(600)).await;
            }
        }
    }
    let policies = "open for: open for 60s; local: local share 1/2; planned: local, whole limit (shadow)";
    let down = format!(
        r#"WARN the store of the rate limiter cannot answer code=PC301 error=the store is down meanwhile="{policies}""#
    );
    let rejected = "WARN the store of the rate limiter still cannot answer, for longer than a policy is open: requests \
                   are rejected code=PC302 policies=\"open for: open for 60s\"";
    let up = format!(r#"INFO the store of the rate limiter answers again policies="{policies}""#);
    assert_eq!(log.lines(), [&*down, rejected, &up, &down, rejected, &up]);
}

#[tokio::test]
async fn a_denial_of_the_store_does_not_use_the_fallback() {
    for (up, down) in [(Mode::Ready, Mode::Down), (Mode::Later, Mode::DownLater)] {
        let (store, registry) = setup();
        let (service, probe) = probed(&limit(&registry, local()));
        store.set(up);
        for _ in 0..20 {
            let answer = send(&service, request(&[])).await;
            assert_eq!(answer.header("x-ratelimit-degraded"), None);
        }
        assert_eq!(probe.calls(), 8);
        // All of the share is still there.
        store.set(down);
        assert_eq!(send(&service, request(&[])).await.header("x-ratelimit-remaining"), Some("3"));
        store.set(up);
        assert_eq!(send(&service, request(&[])).await.status, 429);
        assert_eq!(probe.calls(), 8 + 1);
    }
}
