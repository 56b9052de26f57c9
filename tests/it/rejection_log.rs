//! Every rejection can be seen in the log, at every door: a layer, the check of a handler, Envoy's rate limit service with both kinds of
//! rules, and a layer that sheds load. A flood of them cannot flood it.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use portcullis::key::{Global, Header};
use portcullis::rules::envoy::Descriptors;
use portcullis::rules::{Format, Loader, Rules};
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_rls::RateLimitService;
use portcullis_rls::messages::rate_limit_descriptor::Entry;
use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest};
use portcullis_server::CheckEndpoint;
use portcullis_tests::set_global_subscriber;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tracing::Level;

fn daily(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_day(limit))
}

async fn status(app: &Router, path: &str) -> StatusCode {
    let request = Request::get(path).header("x-user", "mallory").body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap().status()
}

/// A call with one descriptor, of a path of the user.
pub(crate) fn call() -> RateLimitRequest {
    let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
    let entries = vec![entry("path", "/search"), entry("x-user", "mallory")];
    let descriptor = RateLimitDescriptor { entries, ..Default::default() };
    RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
}

#[tokio::test(start_paused = true)]
async fn each_door_logs_rejections_with_policy_and_wait() {
    let (log, _guard) = Log::start(Level::DEBUG);
    let limiter = Limiter::memory();
    let by_user = || Header::named("x-user");

    // The router shows the route of the layer.
    let app = Router::new()
        .route("/search", get(async || "found").layer(limiter.layer(daily("search", 1).by(by_user()))))
        .route(
            "/tried",
            get(async || "found").layer(limiter.layer(daily("tried", 1).by(by_user()).shadow())),
        );
    for expected in [200, 429, 429] {
        assert_eq!(status(&app, "/search").await, expected);
        assert_eq!(status(&app, "/tried").await, 200);
    }
    let lines = log.take();
    let of = |text: &str| lines.iter().filter(|line| line.contains(text)).cloned().collect::<Vec<_>>();
    let expected = r#"DEBUG a request is rejected route="/search" policy="search" reason="limited" wait="#;
    assert_eq!(of(expected).len(), 2, "{lines:?}");
    let expected =
        r#"DEBUG a shadow policy would have rejected this request route="/tried" policy=tried wait="#;
    assert_eq!(of(expected).len(), 2, "{lines:?}");

    let sign_in = daily("sign_in", 1);
    for _ in 0..2 {
        let _ = limiter.check(&sign_in).by(|key| key.part("account", b"mallory")).await;
    }
    log.shows(r#"DEBUG a request is rejected policy="sign_in" reason="limited" wait="#);

    let limits = "domain: shop\ndescriptors: [{ key: path, descriptors: [{ key: x-user, rate_limit: { unit: day, requests_per_unit: 1 } }] }]";
    let descriptors = Descriptors::parse(&[("shop.yaml", limits)]).unwrap();
    let service = RateLimitService::envoy(Limiter::memory(), descriptors);
    for _ in 0..2 {
        service.decide(&call()).await.unwrap();
    }
    log.shows(r#"DEBUG a request is rejected policy="shop.path.x-user" reason="limited" wait="#);

    let rules = r#"
        [policy.paths]
        strategy = "fixed_window"
        quota = "1/day"
        key = "global"
        match = { path = "/search" }
    "#;
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, rules)).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    let native = RateLimitService::native(limiter.clone(), limiter.rules().unwrap().clone()).unwrap();
    for _ in 0..2 {
        native.decide(&call()).await.unwrap();
    }
    log.shows(r#"policy="paths" reason="limited" wait="#);

    let shed = Limiter::memory().shed(1..=1);
    let never = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let held = shed.layer(never);
    let first = tokio::spawn(held.clone().oneshot(Request::new(Body::empty())));
    tokio::task::yield_now().await;
    assert_eq!(held.oneshot(Request::new(Body::empty())).await.unwrap().status(), 503);
    first.abort();
    log.shows(r#"DEBUG a request is rejected reason="shed""#);
}

#[tokio::test(start_paused = true)]
async fn flood_of_rejections_does_not_flood_the_log() {
    let (log, _guard) = Log::start(Level::DEBUG);
    let layer = Limiter::memory().layer(daily("search", 1).by(Global));
    let app = Router::new().route("/search", get(async || "found").layer(layer));
    for _ in 0..10_001 {
        status(&app, "/search").await;
    }
    let is_rejection = |line: &&String| line.starts_with("DEBUG");
    assert_eq!(log.take().iter().filter(is_rejection).count(), 100);
    for _ in 0..61 {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    let trailing = log.take();
    let [line] = &trailing[..] else { panic!("one line has all others: {trailing:?}") };
    assert!(line.contains("more requests are rejected") && line.ends_with("requests=9900"), "{line}");
}

/// Another test may drain its limiter at any time, which writes these lines early.
#[tokio::test]
async fn drain_writes_lines_of_no_limiter() {
    let (log, _guard) = Log::start(Level::DEBUG);
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, "")).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    let checks = CheckEndpoint::new(&limiter).unwrap().router();
    let app = checks.route("/", get(async |_: Charge| "counted"));
    for _ in 0..10 {
        assert_eq!(status(&app, "/").await, 500);
        let mut check = Request::get("/check/traefik").body(Body::empty()).unwrap();
        check.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 80))));
        assert_eq!(app.clone().oneshot(check).await.unwrap().status(), 403);
    }
    let _ = limiter.drain(Duration::from_secs(1)).await;
    let lines = log.take();
    for (text, field) in [("has left a charge in this request", "requests="), ("asked for a check", "times=")]
    {
        let of_text = lines.iter().filter(|line| line.contains(text));
        let counts: Vec<_> = of_text
            .map(|line| line.split(field).nth(1).unwrap().split(' ').next().unwrap().parse::<u32>().unwrap())
            .collect();
        assert_eq!((counts.iter().sum::<u32>(), counts[0]), (10, 1), "{lines:?}");
    }
}

#[tokio::test]
async fn each_decision_is_traced_once() {
    let (log, _guard) = Log::start(Level::TRACE);
    let limiter = Limiter::memory();
    let by_user = || Header::named("x-user");
    let layer = limiter.layer(daily("search", 1).by(by_user())).and(daily("tried", 1).by(by_user()).shadow());
    let app = Router::new().route("/search", get(async || "found").layer(layer));
    for _ in 0..2 {
        status(&app, "/search").await;
    }
    let lines = log.take();
    let of = |policy: &str| {
        let start = format!(r#"TRACE a policy has decided route="/search" policy={policy} "#);
        let of_policy = lines.iter().filter_map(|line| line.strip_prefix(&*start));
        of_policy.map(|rest| rest.split(" is_degraded").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let allowed = r#"about="admission" is_allowed=true"#;
    assert_eq!(of("search"), [allowed, r#"about="rejection" is_allowed=false"#], "{lines:?}");
    // A request that is rejected does not reach the policy that is tried out.
    assert_eq!(of("tried"), [r#"about="tried out" is_allowed=true"#], "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("mallory")));
}

/// The log of this thread, down to a level.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start(level: Level) -> (Self, tracing::subscriber::DefaultGuard) {
        set_global_subscriber();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }

    /// One line since the last call has this text, and none has an identity.
    fn shows(&self, text: &str) {
        let lines = self.take();
        assert_eq!(lines.iter().filter(|line| line.contains(text)).count(), 1, "{text}: {lines:?}");
        assert!(lines.iter().all(|line| !line.contains("mallory")), "{lines:?}");
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
