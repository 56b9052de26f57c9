//! The layers of a registry, for people: what is listed, and what is logged when a layer starts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Request;
use portcullis_core::overrides::LockOut;
use portcullis_core::{Concurrency, FailureMode, Key, Policy, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    ClientIp, Global, Header, Identity, KeyExtractor as _, LayerLog, Limit, Lookup, Mode, OnAbort, OnMissing,
    Percent, PolicyExt as _, PreparedLayer, RateLimitLayer, Registry,
};
use tower::Layer as _;

use crate::log::{Log, log};
use crate::probe::{Probe, probed, request, send};

struct Setup {
    registry: Arc<Registry>,
}

impl Setup {
    fn new() -> Self {
        Self { registry: Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published())) }
    }

    fn layer(&self, name: &'static str) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), daily(name).by(Global))
    }

    fn routes(&self) -> Vec<String> {
        let layers = self.registry.layers();
        layers.iter().map(|layer| layer.route().unwrap_or("-").to_owned()).collect()
    }
}

fn daily(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_day(1_000))
}

fn name(name: &str) -> PolicyName {
    PolicyName::new(name).unwrap()
}

fn starts(log: &Log) -> Vec<String> {
    log.all_lines().into_iter().filter(|line| line.contains("of the rate limiter limit")).collect()
}

#[test]
fn a_layer_is_listed_while_a_service_has_it() {
    let setup = Setup::new();
    let (first, second) = (setup.layer("a").route("first"), setup.layer("b"));
    assert_eq!(setup.routes(), Vec::<String>::new(), "they limit nothing yet");
    let services = [first.layer(()), first.layer(()), second.layer(())];
    assert_eq!(setup.routes(), ["first", "-"]);
    let [one, same, other] = services;
    drop((one, other));
    assert_eq!(setup.routes(), ["first"]);
    drop((same, first));
    assert!(setup.routes().is_empty());
    let _again = second.layer(());
    assert_eq!(setup.routes(), ["-"]);
}

#[test]
fn a_summary_has_the_policies_as_they_are_now() {
    let setup = Setup::new();
    let trial = daily("trial").on_store_failure(FailureMode::Closed);
    let layer = setup.layer("a").and(trial.by(ClientIp::peer()).enforce(Percent::new(10)));
    let _service = layer.layer(());
    let shown = || {
        let layers = setup.registry.layers();
        layers[0].policies().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let a = "a: fixed_window 1000/d by global, enforce, if the store fails: local, whole limit";
    assert_eq!(
        shown(),
        [
            a,
            "trial: fixed_window 1000/d by client_ip, 10 % (tried out: requests of the other keys pass), if the store fails: closed"
        ]
    );

    setup.registry.set_mode(&name("trial"), Mode::Off).unwrap();
    setup.registry.set_policy(Policy::fixed_window("a", Quota::per_day(5))).unwrap();
    let expected = [
        "a: fixed_window 5/d by global, enforce, if the store fails: local, whole limit",
        "trial: fixed_window 1000/d by client_ip, off, if the store fails: closed",
    ];
    assert_eq!(shown(), expected);
    let policies = setup.registry.policies();
    assert_eq!(policies.iter().map(|policy| policy.name().as_str()).collect::<Vec<_>>(), ["a", "trial"]);
    assert_eq!(policies[0].strategy().limit(), 5);
}

#[test]
fn mode_has_its_start() {
    let setup = Setup::new();
    let _layer = RateLimitLayer::new(Arc::clone(&setup.registry), daily("a").by(Global).shadow());
    let since = || setup.registry.mode_since(&name("a"));
    let registered = setup.registry.registered_since(&name("a"));
    assert!(registered.is_some() && since() == registered);
    let after_a_tick = |mode| {
        let start = SystemTime::now();
        while SystemTime::now() == start {}
        setup.registry.set_mode(&name("a"), mode).unwrap();
        since()
    };
    let shadow = after_a_tick(Mode::Shadow);
    assert_ne!(shadow, registered);
    assert_eq!(after_a_tick(Mode::Shadow), shadow);
    assert_ne!(after_a_tick(Mode::Enforce), shadow);
    assert_eq!(setup.registry.registered_since(&name("a")), registered);
    assert_eq!(setup.registry.mode_since(&name("unknown")), None);
}

#[test]
fn a_summary_finds_the_keys_of_a_request() {
    let setup = Setup::new();
    let exempt = |_: &http::request::Parts, _: &mut portcullis_core::KeyWriter<'_>| Ok(Identity::Exempt);
    let looked_up = |_: &http::request::Parts| async { Ok(Lookup::found("tenant", "acme")) };
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), daily("user").by(Header::named("x-user")))
        .and(Limit::new(daily("shared")).on_missing(OnMissing::Shared))
        .and(daily("exempt").by(exempt))
        .and(daily("peer").by(ClientIp::peer()))
        .and(daily("tenant").by_async(looked_up));
    let _service = layer.layer(());
    let layers = setup.registry.layers();
    let find = |policy: &str, request: Request<String>| layers[0].find_key(policy, &request.into_parts().0);
    let ada: Key = setup.registry.key_of(&Header::named("x-user"), request(&[("x-user", "ada")])).unwrap();
    assert_eq!(find("user", request(&[("x-user", "ada")])), Ok(Some(ada)));
    assert_eq!(find("user", request(&[])), Ok(None));
    assert!(find("shared", request(&[])).unwrap().unwrap().is_shared());
    for none in ["exempt", "tenant", "unknown"] {
        assert_eq!(find(none, request(&[])), Ok(None), "{none}");
    }
    assert!(find("peer", request(&[])).is_err(), "there is no connection info");
    let twice = request(&[("x-user", "ada"), ("x-user", "bob")]);
    assert!(find("user", twice).unwrap_err().is_client_fault());
    let keys: Vec<_> = layers[0].policies().iter().map(|policy| policy.key().to_owned()).collect();
    assert_eq!(keys, ["header x-user", "header x-user", "custom", "client_ip", "lookup"]);
}

#[test]
fn keys_describe_themselves() {
    use portcullis_tower::{Bearer, Cookie, Query, Route};

    let session = Cookie::named("session").or(Bearer).and(Route::http_method());
    assert_eq!(session.description(), "cookie session or bearer and method");
    let api_key = Query::named("api_key").credential("ApiKey");
    assert_eq!(api_key.description(), "query api_key");
    assert_eq!(portcullis_tower::Extension::<String>::new().description(), "extension alloc::string::String");
}

#[test]
fn named_key_is_shown_for_its_limits() {
    let closure = |_: &http::request::Parts, _: &mut portcullis_core::KeyWriter<'_>| Ok(Identity::Exempt);
    let setup = Setup::new();
    let limit = daily("user").by(closure).named("user");
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), limit)
        .and(daily("same"))
        .and(Limit::new(daily("other")).by(Global).named("all of them"));
    let _service = layer.layer(Probe::default());
    let layers = setup.registry.layers();
    let keys: Vec<_> = layers[0].policies().iter().map(portcullis_tower::PolicySummary::key).collect();
    assert_eq!(keys, ["user", "user", "all of them"]);
}

#[test]
fn a_layer_logs_once_what_it_limits() {
    let (log, _guard) = log();
    let setup = Setup::new();
    let layer = setup.layer("a").route("GET /search").and(Limit::new(daily("b")).shadow());
    assert!(starts(&log).is_empty(), "nothing is limited yet");
    for _ in 0..3 {
        drop(layer.layer(()));
        drop(layer.clone().layer(()));
    }
    drop(setup.layer("a").layer(()));
    let a = "a: fixed_window 1000/d by global, enforce, if the store fails: local, whole limit";
    let line = "INFO a layer of the rate limiter limits requests";
    let expected = [
        format!(
            "{line} route=\"GET /search\" policies=\"{a}; b: fixed_window 1000/d by global, shadow (tried out: it \
             rejects no request), if the store fails: local, whole limit\""
        ),
        format!("{line} policies=\"{a}\""),
    ];
    assert_eq!(starts(&log), expected);
}

#[test]
fn registered_policy_is_known_without_a_layer() {
    let (log, _guard) = log();
    let registry = Setup::new().registry;
    let exports = Concurrency::new("exports", 4);
    let missing = registry.set_mode(&name("exports"), Mode::Shadow).unwrap_err();
    assert!(missing.to_string().contains("no handler has checked it (`Limiter::register`"), "{missing}");
    for _ in 0..2 {
        registry.register(&exports).unwrap();
    }
    assert_eq!(registry.policies(), [exports.clone().policy()]);
    registry.set_mode(&name("exports"), Mode::Shadow).unwrap();
    assert!(registry.register(&Concurrency::new("exports", 5)).is_err());
    let lines: Vec<_> = log.all_lines().into_iter().filter(|line| line.contains("is registered")).collect();
    let line =
        "INFO a policy of the rate limiter is registered for checks in handlers policy=exports: in_flight 4";
    assert!(lines.len() == 1 && lines[0].starts_with(line), "{lines:?}");
}

#[test]
fn each_option_of_a_limit_is_shown() {
    let setup = Setup::new();
    let log_ins = daily("log-ins")
        .by(Header::named("x-user"))
        .charge_when(|_| true)
        .charge_after_at_most(4)
        .refund_unanswered();
    let lock_out = LockOut::after(3).within(Duration::from_secs(60)).block_for(Duration::from_secs(600));
    let log_ins = log_ins.lock_out(lock_out.up_to(Duration::from_secs(3_600))).hide().warn_at(0.8);
    let tokens = daily("tokens").allow_debt(9).caller_quotas(Quota::per_day(10), Quota::per_day(9_000));
    let tokens = Limit::new(tokens).by(Header::named("x-user")).reserve_or(500, OnAbort::Nothing);
    let tokens = tokens.on_missing(OnMissing::Exempt).quota(|_: &http::request::Parts| None);
    let calls = Policy::gcra("calls", Quota::per_second(10)).wait_at_most(Duration::from_secs(1));
    let calls = calls.by(Global).cost(2).count_rejections();
    let in_flight = Limit::new(Concurrency::new("open", 4)).by(Global).release_at_headers();
    let options = |limit: Limit| {
        let registry = Arc::clone(&setup.registry);
        let service = RateLimitLayer::new(registry, limit).layer(());
        let layers = setup.registry.layers();
        let policy = &layers[0].policies()[0];
        let options: Vec<_> = policy.options().iter().map(ToString::to_string).collect();
        // The line at the start, and `Debug`, have them as well.
        assert!(format!("{policy:?}").contains(&options.join(", ")), "{policy:?}");
        drop(service);
        options
    };
    assert_eq!(options(daily("plain").by(Global)), Vec::<String>::new());
    let expected = [
        "charges responses by a function",
        "charges after the response, and lets 4 of a key be without one",
        "refunds requests without a response",
        "locks out for 600s after 3 rejections within 60s, then for up to 3600s",
        "grants and blocks apply",
        "warns at 0.8 of the limit",
        "not in headers",
    ];
    assert_eq!(options(log_ins), expected);
    let expected = [
        "reserves 500, and charges nothing if the response is cut off",
        "quotas of callers by the request",
        "debts of up to 9 units",
        "callers have from 10/d to 9000/d",
        "requests without an identity are exempt",
    ];
    assert_eq!(options(tokens), expected);
    assert_eq!(options(calls), ["costs 2", "waits for at most 1s", "counts rejected requests"]);
    assert_eq!(options(in_flight), ["released at the headers"]);
}

#[test]
fn limits_that_are_off_are_shown_as_off() {
    let registry = Arc::new(Registry::off());
    let service = RateLimitLayer::new(Arc::clone(&registry), daily("a").by(Global)).layer(());
    let layers = registry.layers();
    assert_eq!(layers[0].policies()[0].mode(), Mode::Off);
    assert!(layers[0].policies()[0].to_string().contains(", off, "), "{layers:?}");
    assert!(format!("{registry:?}").contains("limits: \"off\""), "{registry:?}");
    drop(service);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn layer_learns_its_routes_from_first_requests() {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt as _;

    let (log, _guard) = log();
    let setup = Setup::new();
    let named = setup.layer("named").route("GET /named");
    let app: Router = Router::new()
        .route("/items/{id}", get(async || "item"))
        .route("/search", get(async || "found"))
        .layer(setup.layer("all"))
        .route("/named", get(async || "named").layer(named));
    assert_eq!(setup.routes(), ["-", "GET /named"]);
    for path in ["/items/7", "/items/8", "/search", "/named", "/nowhere"] {
        app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
    }
    assert_eq!(setup.routes(), ["/items/{id}, /search", "GET /named"]);
    let learnt = |route: &str| {
        let text = "INFO a layer of the rate limiter limits requests of this route, which its first request has shown";
        format!("{text} route=\"{route}\" policies=[\"all\"]")
    };
    let lines = starts(&log);
    assert_eq!(lines[lines.len() - 2..], [learnt("/items/{id}"), learnt("/search")]);
}

#[test]
fn lines_about_starts_are_bounded() {
    let (log, _guard) = log();
    let setup = Setup::new();
    for _ in 0..1_100 {
        drop(setup.layer("a").layer(()));
    }
    let lines = starts(&log);
    assert_eq!(lines.len(), 1_001);
    assert_eq!(lines[1_000], "INFO more layers of the rate limiter limit requests: they are not logged");
}

#[test]
fn a_prepared_layer_is_listed_on_demand() {
    let (log, _guard) = log();
    let setup = Setup::new();
    let prepared = PreparedLayer::new(&setup.layer("a").route("rule"), &LayerLog::default());
    assert!(setup.routes().is_empty());
    prepared.list();
    assert_eq!(setup.routes(), ["rule"]);
    let rules = vec![("a".to_owned(), prepared.clone()); 102];
    let texts = PreparedLayer::log_rules(3, &rules, None);
    PreparedLayer::log_rules(4, &rules, Some(&texts));
    drop(rules);
    drop(prepared);
    assert!(setup.routes().is_empty());
    let lines = log.all_lines();
    assert_eq!(lines.len(), 101);
    assert!(
        lines[0].starts_with("INFO a rule of the rate limiter limits requests generation=3"),
        "{lines:?}"
    );
    assert!(lines[100].ends_with("they are not logged generation=3 more=2"), "{lines:?}");
}

#[tokio::test]
async fn a_missing_address_is_logged_with_the_fix() {
    let (log, _guard) = log();
    let setup = Setup::new();
    let (service, _) =
        probed(&RateLimitLayer::new(Arc::clone(&setup.registry), daily("all").by(ClientIp::peer())));
    for _ in 0..100 {
        assert_eq!(send(&service, request(&[])).await.status, 500);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("ERROR the rate limiter cannot decide requests, and rejects them")
            && lines[0].contains("router.into_make_service_with_connect_info::<SocketAddr>()"),
        "{lines:?}"
    );
}
