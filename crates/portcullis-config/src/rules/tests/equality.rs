//! A file does what the builders do: for each option a text and a layer in code, driven by the same requests.

mod callers;
mod functions;
mod keys;
mod layers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use portcullis_core::overrides::LockOut;
use portcullis_core::{
    Anchor, Concurrency, FailureMode, FixedWindow, Policy, PolicyName, Quota, Refill, SlidingWindow,
    Strategy, TokenBucket,
};
use portcullis_tower::matching::{GrpcMethod, Network, RequestMatcher as _, RequestPath};
use portcullis_tower::{
    ClientIp, Header, KeyExtractor as _, Limit, Mode, OnAbort, OnMissing, Percent, PolicyExt as _,
    QuotaLookup, RateLimitHeaders, RateLimitLayer, Registry, Trust,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::registry;
use crate::{Format, Loader, RuleSet, Rules, Tier};

type Start = Arc<Registry>;

/// Requests with identities of all kinds, over some time.
fn requests() -> Vec<(u64, Request<String>)> {
    let mut requests = Vec::new();
    for round in 0..4_u64 {
        for (number, path) in
            ["/search?user=1", "/export", "/health", "/static/a", "/search?user=2", "/a.B/C"]
                .into_iter()
                .enumerate()
        {
            for address in ["192.0.2.1:1", "10.0.0.1:1"] {
                let mut request = Request::builder()
                    .uri(path)
                    .method(if number == 4 { Method::POST } else { Method::GET })
                    .extension(address.parse::<SocketAddr>().unwrap())
                    .header("x-forwarded-for", "198.51.100.7")
                    .header("host", if number == 3 { "a.example" } else { "B.example:80" })
                    .header("answer", if number == 1 { "401" } else { "200" });
                if number != 2 {
                    request = request
                        .header("x-api-key", format!("key {}", number % 2))
                        .header("authorization", "Bearer abc")
                        .header("cookie", "session=1")
                        .header("x-cost", "3")
                        .extension(Tier::new("pro"))
                        .extension(Account(number % 2));
                }
                if number == 5 {
                    request = request.header("content-type", "application/grpc");
                }
                requests.push((round * 700, request.body(String::new()).unwrap()));
            }
        }
        let preflight = Request::builder()
            .method(Method::OPTIONS)
            .uri("/search")
            .header("origin", "https://a.example")
            .header("access-control-request-method", "GET")
            .extension("192.0.2.1:1".parse::<SocketAddr>().unwrap());
        requests.push((0, preflight.body(String::new()).unwrap()));
    }
    requests
}

#[derive(Clone)]
struct Account(usize);

async fn responses(make: impl FnOnce(Start) -> RateLimitLayer) -> Vec<String> {
    let (registry, clock) = registry();
    let service = make(registry).layer(service_fn(async |request: Request<String>| {
        let status = request.headers().get("answer").and_then(|answer| answer.to_str().ok()?.parse().ok());
        let response = Response::builder().status(status.unwrap_or(200_u16));
        Ok::<_, Infallible>(response.body(String::new()).unwrap())
    }));
    let mut seen = Vec::new();
    for (wait, request) in requests() {
        clock.advance(Duration::from_millis(wait / 4));
        let response = service.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = portcullis_body(body).await;
        let mut headers: Vec<_> =
            parts.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        headers.sort();
        seen.push(format!("{} {headers:?} {body}", parts.status));
        // What is settled after the response.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    seen
}

async fn portcullis_body(body: portcullis_tower::ResponseBody<String>) -> String {
    use http_body_util::BodyExt as _;
    let bytes = body.collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn loader(text: &str) -> Loader {
    Loader::text("limits.toml", Format::Toml, text)
        .without_environment()
        .extension::<Account>("account", |account, key| key.part("account", &account.0.to_be_bytes()))
        .quota_lookup("plans", plans())
        .charge_when("failures", |outcome| outcome.status() == 401)
        .cost("length", |parts: &http::request::Parts| parts.uri.path().len() as u64)
}

/// The quota of requests with an account, which is known only after an `await`.
fn plans() -> QuotaLookup {
    QuotaLookup::new(|parts: &http::request::Parts| {
        let account = parts.extensions.get::<Account>().cloned();
        async move {
            tokio::task::yield_now().await;
            Ok(account.map(|_| Quota::per_second(6).burst(9)))
        }
    })
}

#[track_caller]
fn layer_of(text: &str, registry: &Start) -> RateLimitLayer {
    let rules = match Rules::load(&loader(text)) {
        Ok(rules) => rules,
        Err(findings) => panic!("{text}\n{findings}"),
    };
    let all: RuleSet = (0..rules.iter().len()).collect();
    rules.layer(registry, &all).unwrap().unwrap()
}

/// `fields` are those of `[policy.p]`, after `[layer]` and the like.
async fn assert_same(text: &str, make: impl FnOnce(Start) -> RateLimitLayer) {
    let of_file = responses(|registry| layer_of(text, &registry)).await;
    let of_code = responses(make).await;
    for (index, (of_file, of_code)) in of_file.iter().zip(&of_code).enumerate() {
        assert_eq!(of_file, of_code, "request {index} under\n{text}");
    }
}

fn gcra() -> Policy {
    Policy::gcra("p", Quota::per_second(2).burst(3))
}

fn per_minute() -> Quota {
    Quota::per_minute(5)
}

fn strategy(strategy: Strategy) -> Policy {
    Policy::new(PolicyName::new("p").unwrap(), strategy)
}

fn peer(registry: Start, policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(registry, policy.by(ClientIp::peer()))
}

/// A policy by the address of the peer, with more fields.
fn text(fields: &str) -> String {
    format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"2/s burst 3\"\nkey = \"client_ip\"\n{fields}")
}

/// A policy with a key, beside one by address that limits nothing here.
fn keyed(key: &str) -> String {
    format!(
        "[policy.p]\nstrategy = \"gcra\"\nquota = \"2/s burst 3\"\non_missing = \"shared\"\nkey = {key}\n\
         [policy.all]\nstrategy = \"gcra\"\nquota = \"100000/s burst 100000\"\nkey = \"peer\"\nhide = true"
    )
}

fn beside(registry: Start, limit: Limit) -> RateLimitLayer {
    rejecting(registry, limit.on_missing(OnMissing::Shared))
}

fn rejecting(registry: Start, limit: Limit) -> RateLimitLayer {
    let all = Policy::gcra("all", Quota::per_second(100_000).burst(100_000));
    RateLimitLayer::new(registry, limit).and(all.by(ClientIp::peer()).hide())
}

#[tokio::test(start_paused = true)]
async fn strategies_are_those_of_the_builders() {
    let five = per_minute();
    for (fields, policy) in [
        ("strategy = \"gcra\"\nquota = \"5/min\"", Policy::gcra("p", five)),
        (
            "strategy = \"token_bucket\"\nlimit = 5\nperiod = \"1min\"\nburst = 2",
            Policy::token_bucket("p", five.burst(2)),
        ),
        (
            "strategy = \"token_bucket\"\nquota = \"5/min\"\nrefill = \"interval\"",
            strategy(Strategy::TokenBucket(TokenBucket::new(five).unwrap().refilled(Refill::Interval))),
        ),
        ("strategy = \"leaky_bucket\"\nquota = \"5/min\"", Policy::leaky_bucket("p", five)),
        ("strategy = \"fixed_window\"\nquota = \"5/min\"", Policy::fixed_window("p", five)),
        (
            "strategy = \"fixed_window\"\nquota = \"5/min\"\nanchor = \"first_request\"",
            strategy(Strategy::FixedWindow(FixedWindow::new(five).unwrap().anchored(Anchor::FirstRequest))),
        ),
        (
            "strategy = \"sliding_window\"\nquota = \"5/min\"\nslots = 6",
            strategy(Strategy::SlidingWindow(SlidingWindow::with_slots(five, 6).unwrap())),
        ),
        ("strategy = \"sliding_log\"\nquota = \"5/min\"", Policy::sliding_log("p", five)),
        (
            "strategy = \"in_flight\"\nlimit = 4\nlease = \"10s\"",
            Concurrency::new("p", 4).lease(Duration::from_secs(10)).policy(),
        ),
        (
            "strategy = \"gcra\"\nquota = \"5/min\"\non_store_failure = { local = 4 }",
            Policy::gcra("p", five).on_store_failure(FailureMode::local(4)),
        ),
        (
            "strategy = \"gcra\"\nquota = \"5/min\"\non_store_failure = \"closed\"",
            Policy::gcra("p", five).on_store_failure(FailureMode::Closed),
        ),
        (
            "strategy = \"gcra\"\nquota = \"5/min\"\nwait = \"500ms\"",
            Policy::gcra("p", five).wait_at_most(Duration::from_millis(500)),
        ),
        ("strategy = \"gcra\"\nquota = \"5/min\"\ndebt = 50", Policy::gcra("p", five).allow_debt(50)),
        (
            "strategy = \"gcra\"\nquota = \"5/min\"\noverrides = true",
            Policy::gcra("p", five).allow_overrides(),
        ),
        (
            "strategy = \"gcra\"\nquota = \"1000/min burst 1000\"\nlease = 10",
            Policy::gcra("p", Quota::per_minute(1_000).burst(1_000)).lease(10),
        ),
        (
            "strategy = \"gcra\"\nquota = \"5/min\"\ncaller_quotas = [\"1/min\", \"50/min\"]",
            Policy::gcra("p", five).caller_quotas(Quota::per_minute(1), Quota::per_minute(50)),
        ),
    ] {
        let text = format!("[policy.p]\nkey = \"client_ip\"\n{fields}");
        let rules = Rules::load(&loader(&text)).unwrap_or_else(|findings| panic!("{text}\n{findings}"));
        assert_eq!(rules.get("p").unwrap().policy(), &policy, "{fields}");
        assert_same(&text, |registry| peer(registry, policy)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn clients_behind_proxies_are_those_of_the_builders() {
    let trust = || Trust::networks(["10.0.0.0/8"]);
    let tables: [(&str, ClientIp); 6] = [
        (
            "header = \"x-real-ip\"\nor_peer = true\ntrusted_proxies = [\"192.0.2.0/24\"]",
            ClientIp::behind(Trust::networks(["192.0.2.0/24"])).header_or_peer("x-real-ip"),
        ),
        (
            "header = \"x-real-ip\"\nor_peer = false\ntrusted_proxies = [\"192.0.2.0/24\"]",
            ClientIp::behind(Trust::networks(["192.0.2.0/24"])).header("x-real-ip"),
        ),
        (
            "header = \"x-forwarded-for\"\ntrusted_proxies = [\"10.0.0.0/8\"]\nipv6_prefix = 48\nipv4_prefix = 24",
            ClientIp::behind(trust()).x_forwarded_for().ipv6_prefix(48).ipv4_prefix(24),
        ),
        (
            "header = \"forwarded\"\ntrusted_proxies = \"10.0.0.0/8\"\nhops = 1",
            ClientIp::behind(trust().at_most(1)).forwarded(),
        ),
        ("header = \"X-Forwarded-For\"\nhops = 2", ClientIp::behind(Trust::hops(2)).x_forwarded_for()),
        (
            "header = \"cf-connecting-ip\"\ntrusted_proxies = [\"10.0.0.0/8\"]",
            ClientIp::behind(trust()).header("cf-connecting-ip"),
        ),
    ];
    for (table, clients) in tables {
        let text = format!("[client_ip]\n{table}\n{}", text(""));
        assert_same(&text, |registry| RateLimitLayer::new(registry, gcra().by(clients))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_a_policy_are_those_of_the_builders() {
    let same = async |fields: &str, with: fn(Limit) -> Limit| {
        assert_same(&text(fields), |registry| {
            RateLimitLayer::new(registry, with(gcra().by(ClientIp::peer())))
        })
        .await;
    };
    same("mode = \"off\"", |limit| limit.mode(Mode::Off)).await;
    same("mode = \"shadow\"", Limit::shadow).await;
    same("mode = { percent = 50 }", |limit| limit.enforce(Percent::new(50))).await;
    same("mode = \"shadow 50%\"", |limit| limit.shadow_for(Percent::new(50))).await;
    same("mode = \"0.5 %\"", |limit| limit.enforce(Percent::permille(5))).await;
    same("cost = 2", |limit| limit.cost(2)).await;
    same("cost = { function = \"length\" }", |limit| {
        limit.cost_by(|parts: &http::request::Parts| parts.uri.path().len() as u64)
    })
    .await;
    same("cost = { header = \"x-cost\", max = 2 }", |limit| {
        limit.cost_by(|parts: &http::request::Parts| if parts.headers.contains_key("x-cost") { 2 } else { 1 })
    })
    .await;
    same("cost = { path = { \"/export\" = 3, \"/static/{*rest}\" = 0 } }", |limit| {
        limit.cost_by(|parts: &http::request::Parts| match parts.uri.path() {
            "/export" => 3,
            "/static/a" => 0,
            _ => 1,
        })
    })
    .await;
    same("cost = 2\nreserve = \"nothing\"", |limit| limit.reserve_or(2, OnAbort::Nothing)).await;
    #[cfg(feature = "usage")]
    same("reserve = \"used\"\nusage = { pointer = \"/meta/tokens\" }", |limit| {
        let reader = portcullis_usage::UsageReader::pointer("/meta/tokens").unwrap();
        limit.reserve(1).read_usage(reader)
    })
    .await;
    same("lock_out = { after = 2, within = \"1m\", block_for = \"1m\", up_to = \"1h\" }", |limit| {
        let [minute, hour] = [60, 3_600].map(Duration::from_secs);
        limit.lock_out(LockOut::after(2).within(minute).block_for(minute).up_to(hour))
    })
    .await;
    let unauthorized = |limit: Limit| limit.charge_when(|outcome| outcome.status() == 401);
    same("charge_when = { status = [401, 403] }", unauthorized).await;
    same("charge_when = { status = 599, function = \"failures\" }", unauthorized).await;
    same("charge_when = { status = \"4xx\" }\ncharge_after = true", |limit| {
        limit.charge_when(|outcome| outcome.status() == 401).charge_after()
    })
    .await;
    for requests in [0, 1, 20] {
        let fields = format!("charge_when = {{ status = 401 }}\ncharge_after = {requests}");
        assert_same(&text(&fields), |registry| {
            let limit = gcra().by(ClientIp::peer()).charge_when(|outcome| outcome.status() == 401);
            RateLimitLayer::new(registry, limit.charge_after_at_most(requests))
        })
        .await;
    }
    same("refund_unanswered = true", Limit::refund_unanswered).await;
    same("hide = true", Limit::hide).await;
    same("warn_at = 0.5", |limit| limit.warn_at(0.5)).await;
    same("count_rejections = true", Limit::count_rejections).await;
    assert_same(&text("in_flight = { limit = 4, lease = \"10s\", until = \"headers\" }"), |registry| {
        let in_flight = Concurrency::new("p.in_flight", 4).lease(Duration::from_secs(10));
        peer(registry, gcra()).and(Limit::new(in_flight).release_at_headers())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn exemptions_and_missing_identities_are_as_written() {
    let missing = keyed("{ header = \"x-api-key\" }");
    for (name, on_missing) in
        [("reject", OnMissing::Reject), ("exempt", OnMissing::Exempt), ("shared", OnMissing::Shared)]
    {
        assert_same(&missing.replace("shared", name), |registry| {
            let all = Policy::gcra("all", Quota::per_second(100_000).burst(100_000));
            let limit = gcra().by(Header::named("x-api-key")).on_missing(on_missing);
            RateLimitLayer::new(registry, limit).and(all.by(ClientIp::peer()).hide())
        })
        .await;
    }
    assert_same(&text("except = [{ path = \"/export\" }]"), |registry| {
        RateLimitLayer::new(
            registry,
            gcra()
                .by(|parts: &http::request::Parts, key: &mut portcullis_core::KeyWriter<'_>| {
                    if parts.uri.path() == "/export" {
                        return Ok(portcullis_tower::Identity::Exempt);
                    }
                    ClientIp::peer().extract(parts, key)
                })
                .count_rejections(),
        )
    })
    .await;
}
