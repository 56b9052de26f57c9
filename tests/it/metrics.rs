//! The metrics of a real Axum server: in memory, and on a Redis that is killed and started again in the middle. They equal what the clients have
//! seen, and what another observer has counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Request;
use axum::routing::get;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use portcullis::event::{Event, EventKind, Observer};
use portcullis::key::Header;
use portcullis::metrics::Metrics;
use portcullis::regions::{Region, Shares};
use portcullis::{Decision, FailureMode, Limiter, Policy, PolicyExt as _, Quota, Reason};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const CLIENTS: usize = 8;
const SEARCH: Policy = Policy::fixed_window("search", Quota::per_week(70));
const LOGIN: Policy =
    Policy::fixed_window("login", Quota::per_week(1_000)).on_store_failure(FailureMode::Closed);
const PAGES: Policy =
    Policy::fixed_window("pages", Quota::per_week(1_000)).on_store_failure(FailureMode::Open);

/// What begins the figures of the page.
const FIGURES: &str = "\
## Figures of the store

A store reports these about itself, and `refresh_metrics` publishes them. It does no I/O. A store of your own has the figures that it visits by
`Store::figures`: `portcullis_store_`, the name, the unit, and `_total` for what only grows. A time is in seconds, and a gauge even if it only
grows. The figures of a policy that the store has forgotten become 0.

The store `fallback` is the memory that decides while Redis fails.

| metric | type | labels | store | meaning |
|---|---|---|---|---|
";

/// Counts events by what their series is called.
#[derive(Clone, Default)]
struct Truth(Arc<Mutex<BTreeMap<String, u64>>>);

impl Truth {
    fn add(&self, name: &str, labels: &[(&str, &str)], number: u64) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        *self.0.lock().unwrap().entry(format!("{name}{{{}}}", labels.join(","))).or_default() += number;
    }

    fn decided(&self, decisions: &[Decision]) {
        for decision in decisions {
            let outcome = match (decision.is_allowed(), decision.is_degraded(), decision.is_metered()) {
                (_, false, false) => continue,
                (_, true, false) => "unmetered",
                (true, true, true) => "fallback_allowed",
                (false, true, true) => "fallback_denied",
                (true, false, true) => "allowed",
                (false, false, true) => "denied",
            };
            let labels = [("policy", decision.policy().as_str()), ("outcome", outcome)];
            self.add("portcullis_decisions_total", &labels, 1);
        }
    }
}

impl Observer for Truth {
    fn on_event(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::Admitted { decisions } => {
                self.decided(decisions);
                self.add("portcullis_requests_total", &[("outcome", "admitted")], 1);
            }
            EventKind::Rejected { reason, decisions } => {
                self.decided(decisions);
                let outcome = match reason {
                    Reason::Limited => "limited",
                    Reason::StoreFailed => "store_failed",
                    Reason::Overloaded => "overloaded",
                    reason => panic!("{reason:?}"),
                };
                self.add("portcullis_requests_total", &[("outcome", outcome)], 1);
            }
            EventKind::Charged { decision, units } => {
                let labels = [("policy", decision.policy().as_str())];
                self.add("portcullis_charged_units_total", &labels, units);
            }
            EventKind::StoreFailed { error, .. } | EventKind::StoreOverloaded { error } => {
                self.add("portcullis_unanswered_total", &[("kind", error.kind().as_str())], 1);
            }
            _ => {}
        }
    }
}

/// A server with limits, what its clients have seen, and its metrics.
struct Measured {
    limiter: Limiter,
    exporter: PrometheusHandle,
    truth: Truth,
    url: String,
    client: HttpClient,
    /// The number of responses with each status.
    seen: BTreeMap<u16, u64>,
}

impl Measured {
    async fn start(limiter: Limiter) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        let truth = Truth::default();
        let limiter = limiter.metrics_with(&Metrics::with_recorder(recorder)).observe(truth.clone());
        let route =
            |policy: Policy| get(async || "here").layer(limiter.layer(policy.by(Header::named("x-user"))));
        let app: Router = Router::new()
            .route("/search", route(SEARCH))
            .route("/login", route(LOGIN))
            .route("/pages", route(PAGES));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { limiter, exporter, truth, url, client: HttpClient::http_1(), seen: BTreeMap::new() }
    }

    /// Each of several clients sends this number of requests to each route, all at the same time.
    async fn send(&mut self, requests: usize) -> BTreeMap<u16, u64> {
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (http, url) = (self.client.clone(), self.url.clone());
            clients.spawn(async move {
                let mut statuses = Vec::new();
                for request in 0..requests {
                    for path in ["search", "login", "pages"] {
                        let user = format!("user {}", (client + request) % 4);
                        let request = Request::get(format!("{url}/{path}")).header("x-user", user);
                        statuses.push(http.send(request, ()).await.status().as_u16());
                    }
                }
                statuses
            });
        }
        let mut seen = BTreeMap::new();
        for status in clients.join_all().await.into_iter().flatten() {
            *seen.entry(status).or_default() += 1;
            *self.seen.entry(status).or_default() += 1;
        }
        seen
    }

    /// All series, with their values.
    fn series(&self) -> BTreeMap<String, f64> {
        self.limiter.refresh_metrics();
        let text = self.exporter.render();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let series = lines.map(|line| line.rsplit_once(' ').unwrap());
        series.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
    }

    /// The figures of the store by name, each with its type and its meaning.
    fn figures(&self) -> BTreeMap<String, (String, String)> {
        self.limiter.refresh_metrics();
        let text = self.exporter.render();
        let of = |start: &str| -> BTreeMap<String, String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(start)?.split_once(' '));
            lines.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
        };
        let (kinds, mut meanings) = (of("# TYPE "), of("# HELP "));
        let is_figure = |name: &str| name.starts_with("portcullis_store_") && !name.contains("_store_call_");
        let figures = kinds.into_iter().filter(|(name, _)| is_figure(name));
        figures
            .map(|(name, kind)| (name.clone(), (kind, meanings.remove(&name).unwrap_or_default())))
            .collect()
    }

    /// Asserts that the metrics are what the clients have seen and what the observer has counted.
    fn assert_exact(&self) {
        let mut series = self.series();
        let of = |outcome: &str| {
            format!("{}", series[&format!("portcullis_requests_total{{outcome=\"{outcome}\"}}")])
                .parse::<u64>()
                .unwrap()
        };
        let counted =
            [(200, of("admitted")), (429, of("limited")), (503, of("store_failed") + of("overloaded"))];
        let counted: BTreeMap<_, _> = counted.into_iter().filter(|(_, number)| *number > 0).collect();
        assert_eq!(counted, self.seen);

        let truth = self.truth.0.lock().unwrap().clone();
        let names = ["requests", "decisions", "charged_units", "unanswered"];
        let names = names.map(|name| format!("portcullis_{name}_total"));
        series.retain(|series, value| *value > 0.0 && names.iter().any(|name| series.starts_with(name)));
        let series: BTreeMap<_, u64> =
            series.into_iter().map(|(name, value)| (name, format!("{value}").parse().unwrap())).collect();
        assert_eq!(series, truth);
    }

    fn value(&self, series: &str) -> f64 {
        *self.series().get(series).unwrap_or_else(|| panic!("no {series}"))
    }
}

#[tokio::test]
async fn guide_lists_all_figures_of_the_stores() {
    let redis = RedisServer::start().unwrap();
    // A user whose rights are not limited to one namespace.
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let region = Region::new("eu", url.clone(), Shares::equal(2).unwrap());
    let regional = Limiter::redis(url)
        .deadline(Duration::from_secs(5))
        .namespace("regional")
        .region(region)
        .await
        .unwrap();
    let shared = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let limiters = [("memory", Limiter::memory()), ("Redis", shared), ("regions", regional)];
    let mut known = BTreeSet::new();
    let mut section = FIGURES.to_owned();
    for (store, limiter) in limiters {
        let mut measured = Measured::start(limiter).await;
        measured.send(1).await;
        for (name, (kind, meaning)) in measured.figures() {
            let store = if name.contains("_fallback_") { "fallback" } else { store };
            let labels = if name.starts_with("portcullis_store_policy_") { "`policy`" } else { "" };
            if known.insert(name.clone()) {
                writeln!(section, "| `{name}` | {kind} | {labels} | {store} | {meaning} |").unwrap();
            }
        }
    }
    let page = fs::read_to_string(portcullis_pages::path("metrics.md")).unwrap();
    let (begin, _) = page.split_once(FIGURES.lines().next().unwrap()).unwrap();
    portcullis_pages::compare("metrics.md", &format!("{begin}{section}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn metrics_are_exact_in_memory() {
    let mut measured = Measured::start(Limiter::memory()).await;
    let seen = measured.send(50).await;
    // Each of four clients has 70 requests to one route, and enough to the others.
    assert_eq!(seen, [(200, 280 + 800), (429, 120)].into());
    measured.assert_exact();
    assert_eq!(format!("{}", measured.value("portcullis_store_policies")), "3");
    assert_eq!(format!("{}", measured.value("portcullis_store_policy_entries{policy=\"search\"}")), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn metrics_are_exact_while_redis_is_killed_and_restarted() {
    let mut redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let mut measured = Measured::start(limiter).await;
    // The calls of the set-up, which no metrics observed.
    let unobserved = measured.value("portcullis_store_calls_total");
    assert_eq!(measured.send(10).await.get(&200), Some(&240));
    measured.assert_exact();

    // In the middle of requests.
    let kill = tokio::task::spawn_blocking(move || {
        redis.kill().unwrap();
        redis
    });
    measured.send(10).await;
    let mut redis = kill.await.unwrap();
    let during = measured.send(10).await;
    assert!(during.contains_key(&503) && during.contains_key(&200), "{during:?}");
    measured.assert_exact();
    assert!(measured.value("portcullis_outages_total") >= 1.0);

    let restart = tokio::task::spawn_blocking(move || {
        redis.restart().unwrap();
        redis
    });
    measured.send(10).await;
    let _redis = restart.await.unwrap();
    let start = Instant::now();
    while measured.send(1).await.contains_key(&503) {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
    }
    measured.send(10).await;
    measured.assert_exact();
    let calls = ["answered", "failed"].map(|outcome| {
        measured.value(&format!("portcullis_store_call_duration_seconds_count{{outcome=\"{outcome}\"}}"))
    });
    assert!(calls.iter().all(|calls| *calls > 0.0), "{calls:?}");
    let counted = measured.value("portcullis_store_calls_total") - unobserved;
    // A call of the set-up may have ended when metrics observed it.
    let of_set_up = calls[0] + calls[1] - counted;
    assert!((0.0..=unobserved).contains(&of_set_up), "{of_set_up} of {unobserved}");
}
