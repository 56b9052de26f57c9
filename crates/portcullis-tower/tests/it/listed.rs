//! The policies that the headers list.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{Global, Header, Limit, OnMissing, PolicyExt as _, RateLimitHeaders, RateLimitLayer};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::probe::{probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

const ALL: RateLimitHeaders =
    RateLimitHeaders::X_RATELIMIT.union(RateLimitHeaders::IETF).union(RateLimitHeaders::IETF_DRAFT_6);

const USER: Policy = Policy::fixed_window("user", Quota::per_day(2));
const TOTAL: Policy = Policy::fixed_window("total", Quota::per_hour(3));

/// The limit and the remaining units in each format, and the names in `RateLimit-Policy`; nothing where they are absent.
fn shown(headers: &HeaderMap) -> String {
    let value = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    let formats = ["x-ratelimit", "ratelimit"]
        .map(|format| [value(&format!("{format}-limit")), value(&format!("{format}-remaining"))].join("/"));
    let names: Vec<_> =
        value("ratelimit-policy").split(", ").map(|item| item.split(';').next().unwrap()).collect();
    format!("{} | {} | {}", formats.join(" "), value("ratelimit"), names.join(" "))
}

const NOTHING: &str = "/ / |  | ";

/// A limit for each user, which exempts requests without one, and one for all.
fn by_user_and_total(store: &Arc<TestStore>) -> RateLimitLayer {
    RateLimitLayer::new(
        registry_of(Arc::clone(store)),
        USER.by(Header::named("x-user")).on_missing(OnMissing::Exempt),
    )
    .and(TOTAL.by(Global).on_missing(OnMissing::Reject))
    .headers(ALL)
}

#[tokio::test]
async fn only_policies_that_count_the_request_are_listed() {
    let store = Arc::<TestStore>::default();
    let (service, _) = probed(&by_user_and_total(&store));
    let user = request(&[("x-user", "ada")]);
    for (request, expected) in [
        (user, r#"2/1 2/1 | "user";r=1 | "user" "total""#),
        (request(&[]), r#"3/1 3/1 | "total";r=1 | "total""#),
        (request(&[]), r#"3/0 3/0 | "total";r=0;t=3600 | "total""#),
        (request(&[]), r#"3/0 3/0 | "total";r=0;t=3600 | "total""#),
        (request(&[("x-user", "eve")]), r#"3/0 3/0 | "total";r=0;t=3600 | "user" "total""#),
    ] {
        assert_eq!(shown(&send(&service, request).await.headers), expected);
    }
}

#[tokio::test]
async fn a_remembered_denial_lists_the_same_policies() {
    for headers in [&[][..], &[("x-user", "ada")]] {
        let store = Arc::<TestStore>::default();
        let layer = by_user_and_total(&store).and(Policy::gcra("third", Quota::per_minute(1)));
        let (service, _) = probed(&layer.headers(RateLimitHeaders::IETF));
        let admitted = send(&service, request(headers)).await;
        store.set(Mode::Remembering);
        let denied = send(&service, request(headers)).await;
        assert_eq!((admitted.status, denied.status), (200, 429));
        assert_eq!(denied.header("ratelimit-policy"), admitted.header("ratelimit-policy"));
    }
}

#[tokio::test]
async fn a_policy_that_counts_nothing_in_an_outage_is_not_listed() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let open = Policy::gcra("open", Quota::per_minute(1)).on_store_failure(FailureMode::Open);
    let layer = RateLimitLayer::new(registry_of(store), open.by(Global)).headers(ALL);
    let answer = send(&probed(&layer).0, request(&[])).await;
    assert_eq!((answer.status, shown(&answer.headers).as_str()), (200, NOTHING));
    assert_eq!(answer.header("x-ratelimit-degraded"), Some("true"));
}

#[tokio::test]
async fn an_unlisted_policy_decides_and_is_in_no_header() {
    for (unlisted_first, remaining) in [(true, ["2/1", "2/0"]), (false, ["2/1", "2/0"])] {
        let unlisted = Policy::fixed_window("unlisted", Quota::per_minute(2));
        let layer = if unlisted_first {
            RateLimitLayer::new(registry(), unlisted.by(Global).hide()).and(USER)
        } else {
            RateLimitLayer::new(registry(), USER.by(Global)).and(Limit::new(unlisted).hide())
        };
        let (service, _) = probed(&layer.headers(ALL).decision_in_response());
        for figures in remaining {
            let answer = send(&service, request(&[])).await;
            let text = shown(&answer.headers);
            assert!(text.starts_with(&format!("{figures} {figures} | \"user\"")), "{text}");
            assert!(text.ends_with("| \"user\""), "{text}");
            assert!(!format!("{:?}", answer.headers).contains("unlisted"));
        }
    }
}

#[tokio::test]
async fn a_rejection_by_an_unlisted_policy_has_no_figures() {
    let unlisted = Policy::fixed_window("unlisted", Quota::per_minute(1));
    for mode in [Mode::Ready, Mode::Remembering] {
        let store = Arc::<TestStore>::default();
        let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), unlisted.clone().by(Global).hide());
        let (service, _) = probed(&layer.and(USER).headers(ALL));
        let admitted = send(&service, request(&[])).await;
        assert_eq!(admitted.header("x-ratelimit-remaining"), Some("1"));
        store.set(mode);
        let json = request(&[("accept", "application/json")]);
        let rejected = send(&service, json).await;
        assert_eq!((rejected.status, rejected.header("retry-after")), (429, Some("60")), "{mode:?}");
        assert_eq!(shown(&rejected.headers), NOTHING, "{mode:?}");
        assert!(rejected.text.contains(r#""violated-policies":["unlisted"]"#), "{}", rejected.text);
    }
}

#[tokio::test]
async fn figures_of_an_outer_layer_show_around_unlisted_policies() {
    let registry = registry();
    let unlisted = Policy::fixed_window("unlisted", Quota::per_minute(1));
    let layers = (
        RateLimitLayer::new(Arc::clone(&registry), USER.by(Global)).headers(ALL),
        RateLimitLayer::new(registry, unlisted.by(Global).hide()),
    );
    let service = layers
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    let mut answers = Vec::new();
    for _ in 0..2 {
        let response = service.clone().oneshot(Request::new(String::new())).await.unwrap();
        answers.push((response.status().as_u16(), shown(response.headers())));
    }
    assert_eq!(answers[0], (200, r#"2/1 2/1 | "user";r=1 | "user""#.to_owned()));
    assert_eq!(answers[1], (429, NOTHING.to_owned()), "the rejection is not one by the outer layer");
}

#[tokio::test]
async fn later_charges_change_the_listed_figures() {
    let unlisted = Policy::fixed_window("unlisted", Quota::per_minute(10));
    let daily = Policy::fixed_window("daily", Quota::per_day(100));
    let layer =
        RateLimitLayer::new(registry(), unlisted.by(Global).hide()).and(daily).headers(ALL).with_charge();
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<portcullis_tower::Charge>().unwrap().clone();
        assert_eq!(charge.decision().policy().as_str(), "unlisted", "the decisive policy");
        assert!(charge.charge_more(4).await.unwrap().is_allowed());
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(shown(response.headers()), r#"100/95 100/95 | "daily";r=95 | "daily""#);
}
