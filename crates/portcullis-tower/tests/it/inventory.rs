//! The layers of a registry, for people: what is listed, and what is logged when a layer starts.

use std::sync::Arc;
use std::time::SystemTime;

use http::Request;
use portcullis_core::{FailureMode, Key, Policy, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    ClientIp, Global, Header, Identity, KeyExtractor as _, LayerLog, Limit, Lookup, Mode, OnMissing, Percent,
    PolicyExt as _, PreparedLayer, RateLimitLayer, Registry,
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
    let find =
        |policy: &str, request: Request<String>| layers[0].find_key(&name(policy), &request.into_parts().0);
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
    let api_key = Query::named("api_key").credential(http::HeaderValue::from_static("ApiKey"));
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
    PreparedLayer::log_rules(3, &vec![prepared.clone(); 102]);
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
