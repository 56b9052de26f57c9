//! The generated responses in OpenAPI, compared with what the layer sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Response;
use portcullis_core::overrides::LockOut;
use portcullis_core::{Concurrency, FailureMode, Policy, Quota};
use portcullis_tower::{Global, Header, Mode, PolicyExt as _, RateLimitHeaders, RateLimitLayer};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::probe::{Answer, probed, request, send};
use crate::support::{self, TestStore, registry, registry_of};

const DIALECTS: [RateLimitHeaders; 6] = [
    RateLimitHeaders::NONE,
    RateLimitHeaders::X_RATELIMIT,
    RateLimitHeaders::X_RATELIMIT.reset_as_unix_time(),
    RateLimitHeaders::IETF,
    RateLimitHeaders::IETF_DRAFT_6,
    RateLimitHeaders::all(),
];

fn search() -> Policy {
    Policy::gcra("search", Quota::per_minute(2).burst(2))
}

fn described(layer: &RateLimitLayer) -> Value {
    serde_json::to_value(layer.openapi()).unwrap()
}

/// The declared headers, in lower case.
fn declared(response: &Value) -> BTreeSet<String> {
    let headers = response["headers"].as_object();
    headers.into_iter().flatten().map(|(name, _)| name.to_ascii_lowercase()).collect()
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    jsonschema::meta::validate(schema).unwrap();
    jsonschema::validator_for(schema).unwrap().is_valid(value)
}

/// A value of a header, as the schema means it.
fn parsed(schema: &Value, text: &str) -> Value {
    if schema["type"] == "integer" { text.parse::<u64>().unwrap().into() } else { text.into() }
}

/// Every header that was sent is declared and valid, and the body is valid, with no undeclared member.
fn assert_described(response: &Value, answer: &Answer) {
    let headers = response["headers"].as_object().unwrap();
    for (name, value) in &answer.headers {
        let (name, value) = (name.as_str(), value.to_str().unwrap());
        if name == "content-type" {
            continue;
        }
        let Some((_, header)) = headers.iter().find(|(declared, _)| declared.eq_ignore_ascii_case(name))
        else {
            panic!("{name} is not declared: {response:#}")
        };
        assert!(is_valid(&header["schema"], &parsed(&header["schema"], value)), "{name}: {value} {header}");
        assert!(!header["description"].as_str().unwrap().is_empty(), "{name}");
    }
    let content_type = answer.header("content-type").unwrap().split(';').next().unwrap();
    let schema = &response["content"][content_type]["schema"];
    if content_type == "text/plain" {
        assert!(is_valid(schema, &answer.text.as_str().into()));
        return;
    }
    let body: Value = serde_json::from_str(&answer.text).unwrap();
    assert!(is_valid(schema, &body), "{schema:#} {body:#}");
    for member in body.as_object().unwrap().keys() {
        assert!(schema["properties"][member].is_object(), "{member} is not declared: {schema:#}");
    }
}

/// Every example is valid itself.
fn assert_examples_are_valid(response: &Value) {
    let headers = response["headers"].as_object().into_iter().flatten();
    let contents = response["content"].as_object().into_iter().flatten();
    for (name, described) in headers.chain(contents) {
        let (schema, example) = (&described["schema"], &described["example"]);
        assert!(example.is_null() || is_valid(schema, example), "{name}: {example} {schema}");
    }
}

/// Sends requests until one is rejected.
async fn rejected(layer: &RateLimitLayer, accept: &str) -> Answer {
    let (service, _) = probed(layer);
    for _ in 0..100 {
        let answer = send(&service, request(&[("accept", accept), ("x-api-key", "k")])).await;
        if answer.status != 200 {
            return answer;
        }
    }
    panic!("no request is rejected")
}

#[tokio::test]
async fn a_rejection_is_as_described_in_each_dialect() {
    for headers in DIALECTS {
        for accept in ["text/plain", "application/json", "application/problem+json"] {
            let layer = RateLimitLayer::new(registry(), search().by(Global)).headers(headers);
            let response = described(&layer);
            let answer = rejected(&layer, accept).await;
            assert_eq!(answer.status, 429);
            assert_described(&response, &answer);
            assert_examples_are_valid(&response);

            // Only the header of an outage is not sent now.
            let sent = answer.headers.keys().map(|name| name.as_str().to_owned());
            let mut sent: BTreeSet<_> = sent.filter(|name| name != "content-type").collect();
            sent.extend((headers != RateLimitHeaders::NONE).then(|| "x-ratelimit-degraded".into()));
            assert_eq!(declared(&response), sent, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn the_examples_are_what_the_layer_sends() {
    let store = Arc::<TestStore>::default();
    store.micros.store(1_700_000_000_000_000, Ordering::Relaxed);
    let layer = RateLimitLayer::new(registry_of(store), search().by(Global)).headers(RateLimitHeaders::all());
    let response = described(&layer);
    for accept in ["text/plain", "application/problem+json"] {
        let answer = rejected(&layer, accept).await;
        for (name, header) in response["headers"].as_object().unwrap() {
            let Some(sent) = answer.header(&name.to_ascii_lowercase()) else {
                assert_eq!((name.as_str(), &header["example"]), ("X-RateLimit-Degraded", &Value::Null));
                continue;
            };
            assert_eq!(header["example"], parsed(&header["schema"], sent), "{name}");
        }
        let example = &response["content"][accept]["example"];
        match example {
            Value::String(text) => assert_eq!(*text, answer.text),
            _ => assert_eq!(*example, serde_json::from_str::<Value>(&answer.text).unwrap()),
        }
    }
}

#[tokio::test]
async fn several_policies_list_their_limits_and_names() {
    let layer =
        RateLimitLayer::new(registry(), Policy::fixed_window("daily", Quota::per_day(1_000)).by(Global))
            .and(search())
            .headers(RateLimitHeaders::IETF);
    let response = described(&layer);
    let answer = rejected(&layer, "application/problem+json").await;
    assert_described(&response, &answer);
    assert_eq!(
        response["headers"]["RateLimit-Policy"]["example"],
        r#""daily";q=1000;w=86400, "search";q=2;w=60"#
    );
    let items = &response["content"]["application/problem+json"]["schema"]["properties"]["violated-policies"];
    assert_eq!(items["items"]["enum"], json!(["daily", "search"]));
    let description = response["description"].as_str().unwrap();
    assert!(
        description
            .ends_with("\n- `daily`: 1000, replenished in 86400 s\n- `search`: 2, replenished in 60 s"),
        "{description}"
    );
}

#[tokio::test]
async fn a_custom_rejection_has_headers_and_no_content() {
    let layer = RateLimitLayer::new(registry(), search().by(Global)).reject_with(|rejection| {
        let mut response = Response::new("busy".into());
        *response.status_mut() = rejection.status();
        response
    });
    let response = described(&layer);
    assert!(response.get("content").is_none(), "{response:#}");
    let answer = rejected(&layer, "text/plain").await;
    for name in answer.headers.keys() {
        assert!(declared(&response).contains(name.as_str()), "{name}");
    }
    assert_eq!(response["headers"]["Retry-After"]["example"], 30);
    assert!(layer.openapi_responses().responses.contains_key("503"));

    // So does a closure of the limiter.
    let registry = registry();
    registry.reject_with(|rejection| Response::new(rejection.message().into_owned().into()));
    let layer = RateLimitLayer::new(registry, search().by(Global));
    assert!(described(&layer).get("content").is_none());
}

#[tokio::test]
async fn unlisted_policies_stay_unknown() {
    let total = Policy::gcra("total", Quota::per_minute(1));
    let layer = RateLimitLayer::new(registry(), total.by(Global).hide());
    let response = described(&layer);
    let expected = ["cache-control", "retry-after", "x-ratelimit-degraded"].map(ToOwned::to_owned);
    assert_eq!(declared(&response), expected.into());
    assert_described(&response, &rejected(&layer, "application/json").await);

    // The figures are those of the listed one.
    let layer = layer.and(search().by(Global));
    let response = described(&layer);
    assert_eq!(response["headers"]["X-RateLimit-Limit"]["example"], 2);
    assert!(!response.to_string().contains("total"), "{response:#}");
    assert_described(&response, &rejected(&layer, "application/json").await);
}

#[tokio::test]
async fn limits_that_headers_do_not_show_are_not_described() {
    let layer = RateLimitLayer::new(registry(), search().by(Global)).headers(RateLimitHeaders::NONE);
    let description = described(&layer)["description"].as_str().unwrap().to_owned();
    assert_eq!(description, "Too many requests: the client has reached a limit.");
}

#[tokio::test]
async fn a_limit_on_requests_in_flight_has_no_wait_and_no_reset() {
    let exports = Concurrency::new("exports", 2).policy();
    let layer = RateLimitLayer::new(registry(), exports.by(Global)).headers(RateLimitHeaders::all());
    let response = described(&layer);
    for absent in ["retry-after", "x-ratelimit-reset", "ratelimit-reset"] {
        assert!(!declared(&response).contains(absent), "{absent}");
    }
    assert_examples_are_valid(&response);
    assert_eq!(response["headers"]["RateLimit"]["example"], r#""exports";r=0"#);
    assert_eq!(
        response["headers"]["RateLimit-Policy"]["example"],
        r#""exports";q=2;qu="concurrent-requests""#
    );
    // A permit is held as long as the body of a response is not read.
    let (service, _) = probed(&layer);
    let first = service.clone().oneshot(request(&[])).await.unwrap();
    let second = service.clone().oneshot(request(&[])).await.unwrap();
    let answer = send(&service, request(&[("accept", "application/json")])).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16(), answer.status), (200, 200, 429));
    assert_described(&response, &answer);
}

#[tokio::test]
async fn a_blocked_client_is_described_where_clients_can_be_blocked() {
    let blocked = |layer: &RateLimitLayer| {
        let response = described(layer);
        let properties = &response["content"]["application/json"]["schema"]["properties"];
        (response.clone(), properties["blocked"].is_object())
    };
    let layer = RateLimitLayer::new(registry(), search().by(Header::named("x-api-key")));
    assert!(!blocked(&layer).1);
    let layer = RateLimitLayer::new(
        registry(),
        search().allow_overrides().by(Header::named("x-api-key")).lock_out(LockOut::after(3)),
    );
    let (response, is_declared) = blocked(&layer);
    assert!(is_declared);
    assert_described(&response, &rejected(&layer, "application/json").await);
}

#[tokio::test]
async fn a_local_denial_during_an_outage_is_described() {
    for (mode, is_declared) in [(FailureMode::local(1), true), (FailureMode::Closed, false)] {
        let policy = search().on_store_failure(mode);
        let layer = RateLimitLayer::new(registry(), policy.by(Global));
        assert_eq!(declared(&described(&layer)).contains("x-ratelimit-degraded"), is_declared, "{mode}");
    }
}

#[tokio::test]
async fn the_responses_of_a_layer_are_429_and_503() {
    let store = Arc::<TestStore>::default();
    let policy = search().on_store_failure(FailureMode::Closed);
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), policy.by(Global));
    let responses = serde_json::to_value(layer.openapi_responses()).unwrap();
    assert_eq!(responses.as_object().unwrap().keys().collect::<Vec<_>>(), ["429", "503"]);
    assert_eq!(responses["429"], described(&layer));
    for mode in [support::Mode::Down, support::Mode::Overloaded] {
        store.set(mode);
        for accept in ["text/plain", "application/problem+json"] {
            let answer = rejected(&layer, accept).await;
            assert_eq!(answer.status, 503);
            assert_described(&responses["503"], &answer);
            assert_examples_are_valid(&responses["503"]);
        }
    }
}

#[tokio::test]
async fn the_policies_are_described_as_they_are_now() {
    let registry = registry();
    let layer = RateLimitLayer::new(Arc::clone(&registry), search().by(Global));
    registry.set_policy(Policy::gcra("search", Quota::per_minute(2).burst(9))).unwrap();
    assert_eq!(described(&layer)["headers"]["X-RateLimit-Limit"]["example"], 9);
    registry.set_mode(search().name(), Mode::Shadow).unwrap();
    let response = described(&layer);
    assert_eq!(response, json!({ "description": "Not sent: no policy of the layer rejects requests." }));
    assert!(!layer.openapi_responses().responses.contains_key("429"));
}

#[tokio::test]
async fn requests_that_wait_are_described_as_denied_beyond_the_wait() {
    let policy = search().wait_at_most(Duration::from_secs(60));
    let layer = RateLimitLayer::new(registry(), policy.by(Global));
    let response = described(&layer);
    assert_examples_are_valid(&response);
    assert_eq!(response["headers"]["X-RateLimit-Remaining"]["example"], 0);
    assert!(response["headers"]["Retry-After"]["example"].as_u64().unwrap() >= 1);
}
