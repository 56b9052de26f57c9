//! The headers that show clients their budget, in each dialect.

mod by_policy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderMap, Request, Response};
use portcullis_core::{FailureMode, Policy, PolicyName, Quota, Strategy};
use portcullis_tower::{Global, PolicyExt as _, RateLimitHeaders, RateLimitLayer};
use proptest::prelude::*;
use sfv::{BareItem, FieldType as _, List, ListEntry, Parser};
use tower::{Layer as _, ServiceExt as _};

use crate::probe::{Answer, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

const ALL: RateLimitHeaders = RateLimitHeaders::X_RATELIMIT;

fn all() -> RateLimitHeaders {
    ALL | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6
}

/// The header lines of a budget, without those in `plain`.
fn budget_lines(answer: &Answer) -> Vec<String> {
    let plain = ["cache-control: no-store", "content-type: text/plain; charset=utf-8"];
    answer.all_headers().into_iter().filter(|line| !plain.contains(&line.as_str())).collect()
}

#[tokio::test]
async fn all_dialects_show_the_decisive_policy() {
    let store = Arc::<TestStore>::default();
    let second = Policy::gcra("second", Quota::per_second(2).burst(3));
    let day = Policy::fixed_window("day", Quota::per_day(1_000));
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), second.by(Global)).and(day);
    let (service, _) = probed(&layer.headers(all()));
    store.micros.store(86_399_400_000, Ordering::Relaxed);

    let allowed = send(&service, request(&[])).await;
    assert_eq!(
        budget_lines(&allowed),
        [
            "ratelimit-limit: 3",
            r#"ratelimit-policy: "second";q=3;w=2, "day";q=1000;w=86400"#,
            "ratelimit-remaining: 2",
            "ratelimit-reset: 1",
            r#"ratelimit: "second";r=2"#,
            "x-ratelimit-limit: 3",
            "x-ratelimit-remaining: 2",
            "x-ratelimit-reset: 1",
        ]
    );
    send(&service, request(&[])).await;
    let last = send(&service, request(&[])).await;
    assert_eq!(
        last.header("ratelimit"),
        Some(r#""second";r=0;t=1"#),
        "the time until there is more, if nothing remains"
    );

    let denied = send(&service, request(&[])).await;
    assert_eq!(denied.status, 429);
    assert_eq!(
        budget_lines(&denied),
        [
            "ratelimit-limit: 3",
            r#"ratelimit-policy: "second";q=3;w=2, "day";q=1000;w=86400"#,
            "ratelimit-remaining: 0",
            "ratelimit-reset: 2",
            r#"ratelimit: "second";r=0;t=1"#,
            "retry-after: 1",
            "x-ratelimit-limit: 3",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 2",
        ]
    );
}

/// One request of `cost` after `used` units, at 1 000.25 s after the epoch.
async fn corner(policy: Policy, used: u64, cost: u64) -> Answer {
    let store = Arc::<TestStore>::default();
    store.micros.store(1_000_250_000, Ordering::Relaxed);
    let cost_of = |parts: &http::request::Parts| parts.headers["cost"].to_str().unwrap().parse().unwrap();
    let layer = RateLimitLayer::new(registry_of(store), policy.by(Global).cost_by(cost_of));
    let headers = RateLimitHeaders::X_RATELIMIT.reset_as_unix_time() | RateLimitHeaders::IETF;
    let (service, _) = probed(&layer.headers(headers));
    send(&service, request(&[("cost", &used.to_string())])).await;
    send(&service, request(&[("cost", &cost.to_string())])).await
}

#[tokio::test]
async fn headers_are_exact_in_edge_cases() {
    const WEEK: Quota = Quota::per_week(7);
    let years = "1/2555d".parse().unwrap();
    let huge = Quota::new(MANY, std::time::Duration::from_micros(MANY), Some(MANY)).unwrap();
    for (policy, used, cost, status, budget, all, one, retry_after) in [
        // A peek at an unused key: the full limit remains, and the reset is now.
        (Policy::gcra("p", Quota::per_second(1).burst(5)), 0, 0, 200, "5 5 1001", "q=5;w=5", "r=5", None),
        // Nothing remains, and the wait is less than a second.
        (Policy::gcra("p", Quota::per_second(4)), 0, 1, 200, "1 0 1001", "q=1;w=1", "r=0;t=1", None),
        (Policy::gcra("p", Quota::per_second(4)), 1, 1, 429, "1 0 1001", "q=1;w=1", "r=0;t=1", Some("1")),
        // Some units remain, but fewer than the cost: the wait is that of this cost.
        (
            Policy::gcra("p", Quota::per_second(1).burst(9)),
            4,
            8,
            429,
            "9 5 1005",
            "q=9;w=9",
            "r=5;t=3",
            Some("3"),
        ),
        // A cost that can never fit: no field has a wait.
        (Policy::gcra("p", Quota::per_second(1).burst(5)), 1, 6, 400, "5 4 1002", "q=5;w=5", "r=4", None),
        (
            Policy::gcra("p", Quota::per_second(1).burst(5)),
            1,
            u64::MAX,
            400,
            "5 4 1002",
            "q=5;w=5",
            "r=4",
            None,
        ),
        // The largest integer of a structured field.
        (
            Policy::gcra("p", Quota::per_second(Quota::MAX_UNITS).burst(Quota::MAX_UNITS)),
            0,
            0,
            200,
            "999999999999999 999999999999999 1001",
            "q=999999999999999;w=1",
            "r=999999999999999",
            None,
        ),
        // Years.
        (
            Policy::gcra("p", years),
            1,
            1,
            429,
            "1 0 220753001",
            "q=1;w=220752000",
            "r=0;t=220752000",
            Some("220752000"),
        ),
        // A window ends at a multiple of its length: here the first week after the epoch.
        (
            Policy::fixed_window("p", WEEK),
            7,
            1,
            429,
            "7 0 604800",
            "q=7;w=604800",
            "r=0;t=603800",
            Some("603800"),
        ),
        // The largest numbers.
        (
            Policy::gcra("p", huge),
            MANY,
            MANY,
            429,
            "4294967295 0 5296",
            "q=4294967295;w=4295",
            "r=0;t=4295",
            Some("4295"),
        ),
    ] {
        let answer = corner(policy, used, cost).await;
        let x = ["limit", "remaining", "reset"]
            .map(|name| answer.header(&format!("x-ratelimit-{name}")).unwrap());
        let case = format!("{used} then {cost}: {:?}", answer.all_headers());
        assert_eq!((answer.status, x.join(" ").as_str()), (status, budget), "{case}");
        assert_eq!(answer.header("ratelimit-policy"), Some(format!("\"p\";{all}").as_str()), "{case}");
        assert_eq!(answer.header("ratelimit"), Some(format!("\"p\";{one}").as_str()), "{case}");
        assert_eq!(answer.header("retry-after"), retry_after, "{case}");
    }
}

#[tokio::test]
async fn disabled_headers_leave_only_retry_after() {
    let policy = Policy::gcra("p", Quota::per_minute(1));
    let layer = RateLimitLayer::new(registry(), policy.by(Global)).headers(RateLimitHeaders::NONE);
    let (service, _) = probed(&layer);
    assert_eq!(budget_lines(&send(&service, request(&[])).await), [""; 0]);
    assert_eq!(budget_lines(&send(&service, request(&[])).await), ["retry-after: 60"]);
    assert_eq!(layer.exposed_headers(), ["retry-after"]);

    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let layer = |headers| {
        let policy = Policy::gcra("p", Quota::per_minute(1)).on_store_failure(FailureMode::Open);
        RateLimitLayer::new(registry_of(Arc::clone(&store)), policy.by(Global)).headers(headers)
    };
    for (headers, expected) in [
        (RateLimitHeaders::NONE, &[][..]),
        (RateLimitHeaders::SHADOW, &[]),
        (all(), &["x-ratelimit-degraded: true"]),
    ] {
        assert_eq!(
            budget_lines(&send(&probed(&layer(headers)).0, request(&[])).await),
            expected,
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn only_the_innermost_layer_writes_headers() {
    let policy = |name| Policy::gcra(name, Quota::per_minute(1).burst(9));
    let dialects = [RateLimitHeaders::X_RATELIMIT, RateLimitHeaders::IETF, RateLimitHeaders::IETF_DRAFT_6];
    for inner in dialects {
        let registry = registry();
        let service = (
            RateLimitLayer::new(Arc::clone(&registry), policy("outer").by(Global))
                .with_charge()
                .headers(all()),
            RateLimitLayer::new(registry, policy("inner").by(Global)).headers(inner),
        )
            .layer(tower::service_fn(async |_: Request<String>| {
                Ok::<_, std::convert::Infallible>(Response::new(()))
            }));
        let response = service.oneshot(Request::new(String::new())).await.unwrap();
        let written: Vec<_> = response.headers().keys().cloned().collect();
        assert!(written.iter().all(|name| inner.names().any(|own| own == name)), "{inner:?}: {written:?}");
        assert_eq!(
            written.len(),
            inner.names().count() - 1,
            "all of them except the header of degraded responses"
        );
    }
}

#[tokio::test]
async fn budget_headers_of_a_handler_suppress_those_of_the_layer() {
    for own in all().names().filter(|name| name != "x-ratelimit-degraded") {
        for headers in [ALL, RateLimitHeaders::IETF, RateLimitHeaders::IETF_DRAFT_6, all()] {
            let layer = RateLimitLayer::new(registry(), Policy::gcra("p", Quota::per_minute(1)).by(Global));
            let name = own.clone();
            let service = layer.headers(headers).layer(tower::service_fn(move |_: Request<String>| {
                std::future::ready(Response::builder().header(&name, "5").body(()))
            }));
            let response = service.oneshot(Request::new(String::new())).await.unwrap();
            assert_eq!(response.headers().len(), 1, "{own}, {headers:?}: {:?}", response.headers());
            assert_eq!(response.headers()[&own], "5");
        }
    }
}

#[tokio::test]
async fn no_outer_budget_is_added_to_an_inner_layer_without_headers() {
    let policy = |name, burst| Policy::gcra(name, Quota::per_minute(1).burst(burst));
    for silent in [RateLimitHeaders::NONE, RateLimitHeaders::SHADOW] {
        let registry = registry();
        let outermost =
            RateLimitLayer::new(Arc::clone(&registry), policy("outermost", 9).by(Global)).with_charge();
        let outer = RateLimitLayer::new(Arc::clone(&registry), policy("outer", 9).by(Global)).with_charge();
        let inner = RateLimitLayer::new(registry, policy("inner", 1).by(Global));
        let layers = (outermost.headers(all()), outer.headers(RateLimitHeaders::IETF), inner.headers(silent));
        let service = layers.layer(tower::service_fn(async |_: Request<String>| {
            Ok::<_, std::convert::Infallible>(Response::new(()))
        }));
        for (status, count) in [(200, 0), (429, 1)] {
            let response = service.clone().oneshot(Request::new(String::new())).await.unwrap();
            let is_budget = |name: &str| name.contains("ratelimit") || name == "retry-after";
            let names: Vec<_> = response.headers().keys().filter(|name| is_budget(name.as_str())).collect();
            assert_eq!((response.status().as_u16(), names.len()), (status, count), "{names:?}");
        }
    }
}

#[tokio::test]
async fn an_inner_503_carries_no_outer_budget() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let closed =
        Policy::gcra("inner", Quota::per_minute(1)).on_store_failure(portcullis_core::FailureMode::Closed);
    let layers = (
        RateLimitLayer::new(registry(), Policy::gcra("outer", Quota::per_minute(9)).by(Global))
            .with_charge()
            .headers(all()),
        RateLimitLayer::new(registry_of(store), closed.by(Global)),
    );
    let service = layers.layer(tower::service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(()))
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
}

#[test]
fn the_exposed_headers_are_those_that_may_be_written() {
    let headers = all() | RateLimitHeaders::SHADOW;
    let names: Vec<_> = headers.names().map(|name| name.to_string()).collect();
    assert_eq!(names.len(), 10);
    let layer =
        RateLimitLayer::new(registry(), Policy::gcra("p", Quota::per_minute(1)).by(Global)).headers(headers);
    let exposed: Vec<_> = layer.exposed_headers().iter().map(ToString::to_string).collect();
    assert_eq!(exposed, [names, vec!["retry-after".to_owned()]].concat());
    assert_eq!(
        format!("{:?}", RateLimitHeaders::X_RATELIMIT.reset_as_unix_time()),
        r#"{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset (Unix time)", "x-ratelimit-degraded"}"#
    );
}

/// Names and integer parameters of a field, read by an independent parser, which must serialize it identically.
fn read(headers: &HeaderMap, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let text = headers[name].to_str().unwrap();
    let list: List = Parser::new(text).parse().unwrap();
    assert_eq!(list.serialize().as_deref(), Some(text), "it is in the canonical form");
    list.into_iter()
        .map(|member| {
            let ListEntry::Item(item) = member else { panic!("an inner list in {text}") };
            let BareItem::String(policy) = item.bare_item else { panic!("no string in {text}") };
            let parameters = item.params.into_iter().map(|(key, value)| {
                let BareItem::Integer(number) = value else { panic!("no integer in {text}") };
                (key.to_string(), number.into())
            });
            (policy.to_string(), parameters.collect())
        })
        .collect()
}

fn limited(name: &str, quota: Quota, cost: u64) -> RateLimitLayer {
    let policy = Policy::new(
        PolicyName::new(name).unwrap(),
        Strategy::Gcra(portcullis_core::Gcra::new(quota).unwrap()),
    );
    RateLimitLayer::new(registry(), policy.by(Global).cost(cost))
        .and(Policy::gcra("second of two", Quota::per_second(MANY).burst(1 << 20)))
        .headers(all())
}

const MANY: u64 = 4_294_967_295;

proptest! {
    /// For any name and any numbers of a policy, every value is a header value, the fields are those of the draft and agree
    /// with each other, and no name can add fields.
    #[test]
    fn fields_round_trip_and_agree(
        name in "[ -~]{1,64}",
        limit in 1..=MANY,
        seconds in 1_u64..100_000_000,
        burst in 1_u64..1_000,
        cost in 0_u64..1_200,
    ) {
        let quota = Quota::new(limit, std::time::Duration::from_secs(seconds), Some(burst)).unwrap();
        prop_assume!(portcullis_core::Gcra::new(quota).is_ok() && name != "second of two");
        let layer = limited(&name, quota, cost);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..2 {
            let answer = runtime.block_on(send(&probed(&layer).0, request(&[])));
            let policies = read(&answer.headers, "ratelimit-policy");
            prop_assert_eq!(&policies[0].0, &name);
            prop_assert_eq!(&policies[0].1[0], &("q".to_owned(), i64::try_from(burst).unwrap()));
            prop_assert!(policies[0].1[1].0 == "w" && policies[0].1[1].1 >= 1);
            prop_assert_eq!(policies.len(), 2);

            let decided = read(&answer.headers, "ratelimit");
            let (decider, parameters) = &decided[0];
            prop_assert_eq!((decided.len(), policies.iter().filter(|(name, _)| name == decider).count()), (1, 1));
            let number = |name: &str| answer.header(name).map(|value| value.parse::<i64>().unwrap());
            let (remaining, retry_after) = (number("x-ratelimit-remaining").unwrap(), number("retry-after"));
            prop_assert_eq!(&parameters[0], &("r".to_owned(), remaining));
            prop_assert_eq!(number("ratelimit-remaining"), Some(remaining));
            prop_assert_eq!(number("ratelimit-limit"), number("x-ratelimit-limit"));
            prop_assert_eq!(number("ratelimit-reset"), number("x-ratelimit-reset"));
            let more_after = parameters.get(1).map(|(key, seconds)| { assert_eq!(key, "t"); *seconds });
            match answer.status {
                200 => prop_assert_eq!((retry_after, more_after.is_some()), (None, remaining == 0)),
                429 => prop_assert!(retry_after == more_after && more_after >= Some(1)),
                status => prop_assert_eq!((status, retry_after, more_after), (400, None, None)),
            }
        }
    }
}
