//! The simulator decides as a server does: the requests of a log, once sent to a real Axum server whose clock shows the times of the log,
//! and once simulated.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{Request, Response, StatusCode};
use portcullis::charge::ResponseOutcome;
use portcullis::key::Header;
use portcullis::rules::{Format, LiveRules, Loader, Rules};
use portcullis::{ClientIp, OnMissing, Policy, Quota, Secret, Timestamp};
use portcullis_cli::simulate::{Counts, Engine, LogReader, Options, Outcome, engine_of_rules};
use portcullis_core::ManualClock;
use portcullis_core::Mistakes;
use portcullis_memory::MemoryStore;
use portcullis_tests::HttpClient;
use portcullis_tower::{LayerError, PolicyExt as _, RateLimitLayer, Registry};
use tokio::net::TcpListener;
use tower::Service;

/// A token bucket by address, a window by API key, and failed log-ins by address, of which only those are charged that failed.
fn layer(registry: &Arc<Registry>) -> Result<RateLimitLayer, Mistakes<LayerError>> {
    let burst = Policy::token_bucket("burst", Quota::per_second(2).burst(6));
    let daily = Policy::sliding_window("keys", Quota::per_minute(40));
    let failures = Policy::gcra("failures", Quota::per_minute(24).burst(6));
    let failed = |outcome: &ResponseOutcome<'_>| outcome.status() == StatusCode::UNAUTHORIZED;
    let limits = [
        burst.by(ClientIp::peer()),
        daily.by(Header::named("x-api-key")).on_missing(OnMissing::Exempt),
        failures.by(ClientIp::peer()).charge_when(failed),
    ];
    RateLimitLayer::try_new(Arc::clone(registry), limits)
}

/// A request of the log.
struct Entry {
    micros: u64,
    client: IpAddr,
    key: Option<u32>,
    status: u16,
}

/// A small generator with a fixed seed: bursts of a few clients, with pauses.
fn traffic(requests: usize) -> Vec<Entry> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut micros = 1_700_000_000_000_000;
    let mut entries = Vec::new();
    for _ in 0..requests {
        micros += if rng.u64(..50) == 0 { 2_000_000 } else { rng.u64(..150_000) };
        let client = Ipv4Addr::new(127, 0, 0, rng.u8(2..7));
        let key = (rng.u64(..3) > 0).then(|| rng.u32(..4));
        let status = if rng.u64(..4) == 0 { 401 } else { 200 };
        entries.push(Entry { micros, client: client.into(), key, status });
    }
    entries
}

/// Writes JSON lines, each one that is odd a little later than its neighbour.
fn log_of(entries: &[Entry]) -> String {
    let line = |entry: &Entry| {
        let mut line = format!(
            r#"{{"time":{},"client_ip":"{}","method":"POST","path":"/log-in","status":{}"#,
            entry.micros, entry.client, entry.status
        );
        if let Some(key) = entry.key {
            let _ = write!(line, r#","key":"k{key}""#);
        }
        line + "}\n"
    };
    entries.chunks(2).flat_map(|pair| pair.iter().rev().map(line)).collect()
}

/// Sends the requests to a server. Returns whether each was limited.
async fn serve(entries: &[Entry], limit: impl FnOnce(Router, &Arc<Registry>) -> Router) -> Vec<bool> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let answer = async |request: Request<axum::body::Body>| {
        let status = request.headers()["x-answer"].to_str().unwrap().parse::<u16>().unwrap();
        StatusCode::from_u16(status).unwrap()
    };
    let app = limit(Router::new().fallback(answer), &registry);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/log-in", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());

    let mut clients = BTreeMap::new();
    let mut limited = Vec::new();
    for entry in entries {
        clock.set(Timestamp::from_micros(entry.micros));
        let client = clients.entry(entry.client).or_insert_with(|| HttpClient::from_address(entry.client));
        let mut request = Request::post(&url).header("x-answer", entry.status);
        if let Some(key) = entry.key {
            request = request.header("x-api-key", format!("k{key}"));
        }
        let status = client.send(request, ()).await.status();
        assert!(status == 429 || status == entry.status, "{status}");
        limited.push(status == 429);
    }
    limited
}

/// Replays a log. Returns whether each request was limited, and the counts.
fn simulate<S, B>(log: &str, engine: &mut Engine<S>) -> (Vec<bool>, Counts)
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let fields = "header:x-api-key=key".parse().unwrap();
    let mut reader = LogReader::new(log.as_bytes()).fields(fields);
    let mut limited = Vec::new();
    while let Some(line) = reader.next().unwrap() {
        limited.push(engine.handle(line) == Outcome::Rejected);
    }
    assert_eq!((reader.notes().bad, reader.notes().late), (0, 0));
    (limited, engine.finish())
}

fn assert_equal(simulated: &(Vec<bool>, Counts), served: &[bool]) {
    let (outcomes, counts) = simulated;
    let rejected = served.iter().filter(|limited| **limited).count() as u64;
    assert!((100..1_900).contains(&rejected), "{rejected}");
    assert_eq!(outcomes, served, "each request has the same outcome");
    assert_eq!((counts.requests, counts.rejected), (2_000, rejected));
    for rule in ["burst", "keys", "failures"] {
        assert!(counts.rule(rule).is_some_and(|rule| rule.rejected > 0), "{rule}: {:?}", counts.rules);
    }
    let by_bucket: u64 = counts.series.buckets().iter().map(|bucket| bucket.rejected).sum();
    assert_eq!(by_bucket, rejected);
}

#[tokio::test]
async fn simulation_decides_as_the_server_does() {
    let entries = traffic(2_000);
    let served = serve(&entries, |app, registry| app.layer(layer(registry).unwrap())).await;
    let simulation = std::thread::spawn(move || {
        let mut engine = Engine::new(Options::default(), layer).unwrap();
        simulate(&log_of(&entries), &mut engine)
    });
    assert_equal(&simulation.join().unwrap(), &served);
}

/// The limits of `layer` in a file.
const RULES: &str = r#"
[policy.burst]
strategy = "token_bucket"
quota = "2/s burst 6"
key = "client_ip"

[policy.keys]
strategy = "sliding_window"
quota = "40/min"
key = { header = "x-api-key" }
on_missing = "exempt"

[policy.failures]
strategy = "gcra"
quota = "24/min burst 6"
key = "client_ip"
match = { path = "/log-in", methods = ["POST"] }
charge_when = { status = [401] }
"#;

#[tokio::test]
async fn rules_of_a_file_decide_as_in_the_server() {
    let entries = traffic(2_000);
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, RULES));
    let rules = rules.unwrap_or_else(|findings| panic!("{findings}"));
    let of_server = rules.clone();
    let served = serve(&entries, |app, registry| {
        app.layer(LiveRules::new(Arc::clone(registry), of_server).unwrap().layer())
    });
    let served = served.await;
    let simulation = std::thread::spawn(move || {
        let mut engine = engine_of_rules(rules, Options::default()).unwrap();
        simulate(&log_of(&entries), &mut engine)
    });
    assert_equal(&simulation.join().unwrap(), &served);
}
