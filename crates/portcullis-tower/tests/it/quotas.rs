//! Quotas of the caller's own: plans, tiers and contracts.

mod constant;
mod corrections;
mod later;
mod lookups;
mod refused;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use http::request::Parts;
use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    Event, EventKind, Extension, Header, Limit, Mode, Observer, Percent, PolicyExt as _, RateLimitHeaders,
    RateLimitLayer, Registry,
};

use crate::probe::{Answer, Probe, grpc, probed, request, send};
pub(crate) use later::charge_of;
use tower::{Layer as _, ServiceExt as _};

/// The account of a request, as authentication inserts it.
#[derive(Clone)]
pub(crate) struct Account {
    id: &'static str,
    quota: Option<Quota>,
}

pub(super) fn by_account() -> Extension<Account> {
    Extension::<Account>::with(|account, key| key.part("account", account.id.as_bytes()))
}

pub(super) fn quota_of(parts: &Parts) -> Option<Quota> {
    parts.extensions.get::<Account>()?.quota
}

pub(crate) fn sent_by(id: &'static str, quota: Option<Quota>) -> Request<String> {
    with_account(request(&[]), id, quota)
}

pub(super) fn with_account(
    mut request: Request<String>,
    id: &'static str,
    quota: Option<Quota>,
) -> Request<String> {
    request.extensions_mut().insert(Account { id, quota });
    request
}

/// The refused quotas and the failed look-ups of quotas.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Refusals {
    fn on_event(&self, event: &Event<'_>) {
        let line = match event.kind {
            EventKind::QuotaRefused { policy, quota, error } => format!("{policy} {quota}: {error}"),
            EventKind::QuotaLookupFailed { policy, error } => format!("{policy}: {error}"),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

pub(crate) struct Setup {
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: ManualClock,
    pub(crate) refusals: Refusals,
}

pub(crate) fn setup() -> Setup {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let refusals = Refusals::default();
    registry.observe(Arc::new(refusals.clone()));
    Setup { registry, clock, refusals }
}

pub(super) const FREE: Quota = Quota::per_day(100);
pub(super) const PRO: Quota = Quota::per_day(5_000);

/// 100 a day, and up to 5000 for callers with a plan.
pub(super) fn daily() -> Policy {
    Policy::fixed_window("daily", FREE).caller_quotas(Quota::per_day(10), PRO)
}

impl Setup {
    pub(crate) fn layer(&self, policy: Policy) -> RateLimitLayer {
        self.layer_of(limit(policy))
    }

    pub(crate) fn layer_of(&self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit).with_charge()
    }
}

/// A policy with the quotas of callers by their header.
pub(crate) fn limit(policy: Policy) -> Limit {
    policy.by(by_account()).quota(quota_of)
}

fn figures(answer: &Answer) -> [&str; 2] {
    ["x-ratelimit-limit", "x-ratelimit-remaining"].map(|name| answer.header(name).unwrap())
}

#[tokio::test]
async fn two_plans_have_two_limits() {
    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    for used in 1..=3 {
        for (id, quota, limit) in [("ada", Some(PRO), 5_000), ("bob", None, 100), ("eve", Some(FREE), 100)] {
            let answer = send(&service, sent_by(id, quota)).await;
            assert_eq!(figures(&answer), [limit.to_string(), (limit - used).to_string()]);
            assert_eq!(answer.seen.unwrap().limit(), limit);
        }
    }
    assert!(setup.refusals.take().is_empty());
}

#[tokio::test]
async fn a_change_of_plan_keeps_what_was_used() {
    type Make = fn(Quota) -> Policy;
    let algorithms: [Make; 3] = [
        |quota| Policy::fixed_window("p", quota),
        |quota| Policy::sliding_window("p", quota),
        |quota| Policy::sliding_log("p", quota),
    ];
    for make in algorithms {
        let setup = setup();
        let (service, probe) = probed(&setup.layer(make(FREE).caller_quotas(Quota::per_day(10), PRO)));
        for _ in 0..100 {
            assert_eq!(send(&service, sent_by("ada", Some(FREE))).await.status, 200);
        }
        assert_eq!(send(&service, sent_by("ada", Some(FREE))).await.status, 429);
        // The upgrade applies at once.
        let upgraded = send(&service, sent_by("ada", Some(PRO))).await;
        assert_eq!(figures(&upgraded), ["5000", "4899"]);
        // After the downgrade, more is used than the plan has.
        let downgraded = send(&service, sent_by("ada", Some(Quota::per_day(10)))).await;
        assert_eq!((downgraded.status, figures(&downgraded)), (429, ["10", "0"]));
        let other = send(&service, sent_by("bob", Some(Quota::per_day(10)))).await;
        assert_eq!(figures(&other), ["10", "9"]);
        assert_eq!(probe.calls(), 102);
    }
}

#[tokio::test]
async fn a_change_of_the_rate_keeps_the_time_until_a_bucket_is_full() {
    let setup = setup();
    let [slow, fast] = [60, 6_000].map(|limit| Quota::per_hour(limit).burst(limit));
    let bucket = Policy::token_bucket("bucket", slow).caller_quotas(Quota::per_hour(60).burst(10), fast);
    let (service, _) = probed(&setup.layer(bucket));
    for _ in 0..30 {
        assert_eq!(send(&service, sent_by("ada", Some(slow))).await.status, 200);
    }
    // Half of the hour is used, under any rate.
    assert_eq!(figures(&send(&service, sent_by("ada", Some(fast))).await), ["6000", "2999"]);
    // With another burst, the units in use stay the same.
    let answer = send(&service, sent_by("ada", Some(Quota::per_hour(60).burst(50)))).await;
    assert_eq!(figures(&answer), ["50", "18"]);
    let small = send(&service, sent_by("ada", Some(Quota::per_hour(60).burst(10)))).await;
    assert_eq!((small.status, figures(&small)), (429, ["10", "0"]));
}

#[tokio::test]
async fn all_headers_show_the_quota_of_the_caller() {
    let setup = setup();
    let burst = Policy::gcra("burst", Quota::per_second(10).burst(20))
        .caller_quotas(Quota::per_second(1), Quota::per_second(100).burst(500));
    let all = RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF_DRAFT_6;
    let layer = setup.layer(burst).and(Limit::new(daily()).quota(|_| Some(PRO))).headers(all);
    let (service, _) = probed(&layer);
    for (id, quota, item, limit) in [
        ("ada", Some(Quota::per_second(50).burst(200)), r#""burst";q=200;w=4"#, "200"),
        ("bob", None, r#""burst";q=20;w=2"#, "20"),
        ("eve", Some(Quota::per_second(2)), r#""burst";q=1;w=1"#, "1"),
    ] {
        let answer = send(&service, sent_by(id, quota)).await;
        let policies = format!(r#"{item}, "daily";q=5000;w=86400"#);
        assert_eq!(answer.header("ratelimit-policy").unwrap(), policies);
        assert_eq!(
            (answer.header("x-ratelimit-limit"), answer.header("ratelimit-limit")),
            (Some(limit), Some(limit))
        );
    }
    let denied = send(&service, sent_by("eve", Some(Quota::per_second(2)))).await;
    assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("1")));
    assert_eq!(denied.header("ratelimit"), Some(r#""burst";r=0;t=1"#));
    assert_eq!(denied.header("ratelimit-policy"), Some(r#""burst";q=1;w=1, "daily";q=5000;w=86400"#));
    // More than the plan can ever have.
    let layer = setup.layer_of(limit(daily()).cost(200)).headers(all);
    let never = send(&probed(&layer).0, sent_by("max", Some(Quota::per_day(150)))).await;
    assert_eq!((never.status, never.header("x-ratelimit-limit")), (400, Some("150")));
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn details_in_grpc_show_the_quota_of_the_caller() {
    use tonic_types::StatusExt as _;

    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    let quota = Some(Quota::per_day(10));
    for _ in 0..10 {
        send(&service, sent_by("ada", quota)).await;
    }
    let answer = send(&service, with_account(grpc(&[]), "ada", quota)).await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("10"));
    let status = tonic::Status::from_header_map(&answer.headers).unwrap();
    let details = status.get_error_details();
    assert_eq!(details.quota_failure().unwrap().violations[0].description, "0 of 10 units remain");
}

#[tokio::test]
async fn soft_limits_are_parts_of_the_quota_of_the_caller() {
    let setup = setup();
    let (service, _) = probed(&setup.layer_of(limit(daily()).warn_at(0.5)));
    for _ in 0..49 {
        assert_eq!(send(&service, sent_by("bob", None)).await.header("x-ratelimit-warning"), None);
        assert_eq!(send(&service, sent_by("ada", Some(PRO))).await.header("x-ratelimit-warning"), None);
    }
    assert!(send(&service, sent_by("bob", None)).await.header("x-ratelimit-warning").is_some());
    assert_eq!(send(&service, sent_by("ada", Some(PRO))).await.header("x-ratelimit-warning"), None);
}

#[tokio::test]
async fn shadow_policies_decide_by_the_quota_of_the_caller() {
    let setup = setup();
    let layer = setup.layer_of(limit(daily()).shadow()).headers(RateLimitHeaders::SHADOW);
    let (service, _) = probed(&layer);
    let small = Some(Quota::per_day(10));
    for used in 1..=12 {
        let answer = send(&service, sent_by("ada", small)).await;
        assert_eq!(answer.header("x-ratelimit-shadow").is_some(), used > 10, "{used}");
        assert_eq!(send(&service, sent_by("bob", None)).await.header("x-ratelimit-shadow"), None);
    }
}

#[tokio::test]
async fn a_share_of_the_keys_has_quotas_of_their_own() {
    let setup = setup();
    let layer = setup.layer_of(limit(daily()).mode(Mode::Percent(Percent::new(50))).cost(60));
    let (service, _) = probed(&layer);
    let mut denied = [0; 2];
    for id in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"] {
        for (of_plan, quota) in [Some(PRO), None].into_iter().enumerate() {
            for _ in 0..2 {
                denied[of_plan] += u32::from(send(&service, sent_by(id, quota)).await.status == 429);
            }
        }
    }
    assert_eq!(denied[0], 0);
    assert!((2..=30).contains(&denied[1]), "{denied:?}");
}

#[tokio::test]
async fn a_layer_without_charges_shows_the_quota_of_the_caller() {
    let setup = setup();
    let service =
        RateLimitLayer::new(setup.registry, daily().by(by_account()).quota(quota_of)).layer(Probe::default());
    for (quota, limit) in [(Some(PRO), "5000"), (None, "100"), (Some(PRO), "5000")] {
        let answer = send(&service, sent_by("ada", quota)).await;
        assert_eq!((answer.header("x-ratelimit-limit"), &answer.seen), (Some(limit), &None));
    }
}

#[tokio::test]
async fn any_number_of_quotas_is_decided_correctly() {
    let setup = setup();
    let layer = setup.layer(daily()).headers(RateLimitHeaders::IETF);
    let (service, _) = probed(&layer);
    for round in 1..=2 {
        for limit in 10..800 {
            let id: &'static str = Box::leak(limit.to_string().into_boxed_str());
            let answer = send(&service, sent_by(id, Some(Quota::per_day(limit)))).await;
            assert_eq!(answer.header("ratelimit-policy").unwrap(), format!("\"daily\";q={limit};w=86400"));
            assert_eq!(answer.header("ratelimit").unwrap(), format!("\"daily\";r={}", limit - round));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_follows_the_rate_of_the_caller() {
    let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    let queue = Policy::leaky_bucket("queue", Quota::per_minute(1).burst(5))
        .caller_quotas(Quota::per_minute(1).burst(1), Quota::per_minute(60).burst(60));
    let layer = RateLimitLayer::new(registry, queue.by(by_account()).quota(quota_of)).with_charge();
    let (service, probe) = probed(&layer);
    let quota = Some(Quota::per_minute(6).burst(2));
    assert_eq!(send(&service, sent_by("ada", quota)).await.status, 200);
    let waiting = tokio::time::timeout(Duration::from_secs(59), send(&service, sent_by("ada", quota)));
    assert_eq!(waiting.await.expect("a slot every 10 s").status, 200);
    let hopeless = tokio::time::timeout(Duration::from_secs(50), send(&service, sent_by("bob", None)));
    assert_eq!(hopeless.await.unwrap().status, 200);
    let hopeless = tokio::time::timeout(Duration::from_secs(50), send(&service, sent_by("bob", None)));
    assert!(hopeless.await.is_err(), "a slot every 60 s");
    assert_eq!(probe.calls(), 3);
}

#[tokio::test]
async fn a_layer_that_is_changed_after_its_use_keeps_nothing() {
    let setup = setup();
    let mut layer = setup.layer(daily());
    for (headers, shown) in [(RateLimitHeaders::X_RATELIMIT, true), (RateLimitHeaders::NONE, false)] {
        layer = layer.headers(headers);
        let answer = send(&probed(&layer).0, sent_by("ada", Some(PRO))).await;
        assert_eq!(answer.header("x-ratelimit-limit").is_some(), shown);
    }
}

#[tokio::test]
async fn a_function_is_asked_once_per_request_for_its_own_policy() {
    let setup = setup();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let [first, second] = ["first", "second"].map(|name| {
        let asked = Arc::clone(&asked);
        move |parts: &Parts| {
            asked.lock().unwrap().push(name);
            quota_of(parts)
        }
    });
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(3));
    let per_week = Quota::per_week(3);
    let weekly = Policy::fixed_window("weekly", per_week).caller_quotas(per_week, per_week);
    let layer = RateLimitLayer::new(setup.registry, daily().by(by_account()).quota(first))
        .with_charge()
        .and(hourly.by(Header::named("x-user")))
        .and(Limit::new(weekly).quota(second));
    let (service, _) = probed(&layer);
    let sent = with_account(request(&[("x-user", "ada")]), "ada", None);
    assert_eq!(send(&service, sent).await.status, 200);
    assert_eq!(*asked.lock().unwrap(), ["first", "second"]);
}

#[tokio::test]
#[should_panic(expected = "no plan")]
async fn a_panic_of_the_function_reaches_the_caller_of_the_service() {
    let setup = setup();
    let layer = RateLimitLayer::new(setup.registry, daily().by(by_account()).quota(|_| panic!("no plan")))
        .with_charge();
    send(&probed(&layer).0, sent_by("ada", None)).await;
}

#[tokio::test(start_paused = true)]
async fn unsettled_requests_follow_a_quota() {
    let guesses = Policy::fixed_window("guesses", Quota::per_hour(2))
        .caller_quotas(Quota::per_hour(1), Quota::per_hour(9));
    let limit = limit(guesses).charge_when(|outcome| outcome.status().is_client_error());
    for (limit, most) in [(limit.clone().charge_after(), [1, 2, 4]), (limit.charge_after_at_most(3), [3; 3])]
    {
        let service = setup().layer_of(limit).layer(tower::service_fn(|_: Request<String>| {
            std::future::pending::<Result<http::Response<String>, std::convert::Infallible>>()
        }));
        let quotas = [Some(Quota::per_hour(1)), None, Some(Quota::per_hour(4))];
        for ((id, quota), most) in ["ada", "bob", "eve"].into_iter().zip(quotas).zip(most) {
            let requests = [(); 9].map(|()| tokio::spawn(service.clone().oneshot(sent_by(id, quota))));
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(requests.iter().filter(|request| !request.is_finished()).count(), most, "{id}");
        }
    }
}
