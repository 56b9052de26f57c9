//! Keys that a client makes up to fill the memory that other clients need.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::{Router, routing::get};
use portcullis::key::{Bearer, Header, Key};
use portcullis::store::{Checks, MemoryStore, Store};
use portcullis::{ClientIp, Decision, Limiter, Policy, PolicyExt as _, Quota, Retry, Secret};
use portcullis_servers::within_a_minute;
use portcullis_testing::ManualClock;
use portcullis_tests::{per_half_century, set_global_subscriber};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tracing_subscriber::filter::LevelFilter;

use crate::raw;

/// The policy that the attacker's keys are charged to: their states live for a day.
const DAILY: Policy = Policy::fixed_window("api-keys", Quota::per_day(1_000));
const LOGIN: Policy = Policy::fixed_window("login", Quota::per_minute(5));

fn made_up(limiter: &Limiter, number: u32) -> Key {
    limiter.key(|key| key.part("header", &number.to_be_bytes())).unwrap()
}

fn check_one(limiter: &Limiter, policy: &Policy, key: Key, cost: u64) -> Decision {
    let checks = Checks::one(policy.clone(), key, cost);
    limiter.store().check(checks).into_ready().expect("memory decides at once").unwrap().into_decision()
}

/// Charges each of the made-up keys once.
fn fill(limiter: &Limiter, policy: &Policy, keys: u32) {
    thread::scope(|scope| {
        for half in [0..keys / 2, keys / 2..keys] {
            scope.spawn(move || {
                for number in half {
                    let _ = check_one(limiter, policy, made_up(limiter, number), 1);
                }
            });
        }
    });
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// The status of a request to `path` from a local address.
async fn request(from: Ipv4Addr, to: SocketAddr, path: &str) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: 1\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within_a_minute("end of the response", stream.read_to_string(&mut answer)).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn made_up_keys_take_nothing_from_other_policies() {
    let limiter = Limiter::memory();
    let app = Router::new()
        .route("/api", get(|| async {}).layer(limiter.layer(DAILY.by(Header::named("x-api-key")))))
        .route("/login", get(|| async {}).layer(limiter.layer(LOGIN.by(ClientIp::peer()))));
    let server = serve(app).await;
    fill(&limiter, &DAILY, 1_100_000);

    let mut denied = 0;
    for client in 0..200 {
        let address = Ipv4Addr::new(127, 1, 0, client + 1);
        denied += u32::from(request(address, server, "/login").await != 200);
    }
    assert_eq!(denied, 0, "of 200 new addresses");
    // Under the policy itself a new client shares one of 4 096 states with some 200 made-up keys.
    assert_eq!(request(Ipv4Addr::new(127, 1, 0, 1), server, "/api").await, 200);
}

#[test]
fn clients_beyond_the_capacity_share_4096_budgets_without_debt() {
    const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(1_000));
    let clock = ManualClock::default();
    let store = MemoryStore::builder().capacity(10_000).clock(clock.clone()).build();
    let limiter = Limiter::new(store, Secret::published());
    fill(&limiter, &HOURLY, 44_000);

    let checks = Checks::one(HOURLY, made_up(&limiter, 44_000), 1);
    let outcome = limiter.store().check(checks).into_ready().unwrap().unwrap();
    let receipt = outcome.into_receipts().next().expect("a new client is admitted");
    let settled = limiter.settle(receipt, u64::MAX).into_ready().unwrap().unwrap();
    assert_eq!(settled.decision.remaining(), 0);
    assert!(settled.uncharged > u64::MAX - 1_000, "no more is charged than the state has left");

    let new = || (44_001..94_000).map(|number| check_one(&limiter, &HOURLY, made_up(&limiter, number), 1));
    let denied: Vec<_> = new().filter(|decision| !decision.is_allowed()).collect();
    assert!((1..40).contains(&denied.len()), "{} of 50 000 share the state", denied.len());
    let until_the_hour = Some(Retry::After(Duration::from_hours(1)));
    assert!(denied.iter().all(|decision| decision.retry() == until_the_hour));
    clock.advance(Duration::from_hours(1));
    assert!(new().all(|decision| decision.is_allowed()), "a debt would last for another hour");
}

#[tokio::test(start_paused = true)]
async fn overflow_is_logged_hourly_without_names() {
    set_global_subscriber();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let store = MemoryStore::builder().capacity(10).clock(ManualClock::default()).build();
    let limiter = Limiter::new(store, Secret::published());
    let flood = |policy: &Policy| {
        for number in 0..1_000_u32 {
            let key = limiter.key(|key| key.part("header", format!("made-up-{number}").as_bytes())).unwrap();
            let _ = check_one(&limiter, policy, key, 1);
        }
    };
    let lines = || {
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(!log.contains("made-up"), "{log}");
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    flood(&DAILY);
    flood(&DAILY);
    assert_eq!(lines().len(), 1);
    assert!(
        lines()[0].contains("policy=api-keys keys=10") && lines()[0].contains("checks=1"),
        "{lines:?}",
        lines = lines()
    );
    flood(&LOGIN);
    assert_eq!(lines().len(), 2, "each policy has its own line");
    // Without another check.
    tokio::time::sleep(Duration::from_secs(3_601)).await;
    let trailing = lines().split_off(2);
    assert_eq!(trailing.len(), 2);
    for (policy, checks) in [(&DAILY, 1_979), (&LOGIN, 989)] {
        let ends = format!("policy={} keys=10 bytes={{bytes}} checks={checks}", policy.name());
        let (start, end) = ends.split_once("{bytes}").unwrap();
        assert!(trailing.iter().any(|line| line.contains(start) && line.contains(end)), "{trailing:?}");
    }
}

#[test]
fn policy_beyond_the_total_is_refused() {
    let store = MemoryStore::builder().capacity(1_000).total_capacity(1_000).build();
    let limiter = Limiter::new(store, Secret::published());
    let [daily, login] = [DAILY, LOGIN].map(|policy| policy.by(ClientIp::peer()));
    let _layer = limiter.layer(daily.clone());
    for limits in [vec![login.clone()], vec![daily.clone(), login]] {
        let error = limiter.try_layer(limits).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("policy login") && text.contains("`total_capacity` to 2000"), "{text}");
    }
    assert!(limiter.try_layer([daily]).is_ok(), "its capacity is reserved already");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tokens of all forms, well-formed or not, of which none comes twice.
fn token(number: u32) -> String {
    match number % 5 {
        0 => format!("Bearer {number}|{number:x}"),
        1 => format!("Bearer {number}=/+~.-_\u{21}"),
        2 => format!("Bearer {number} {number}"),
        3 => format!("Bearer {number}{}", "x".repeat(4_097)),
        _ => format!("Bearer {number}\r\nauthorization: Bearer {number}"),
    }
}

#[tokio::test]
async fn ten_thousand_made_up_tokens_reach_the_limit_of_the_address() {
    let limiter = Limiter::memory();
    let per_token = Policy::gcra("tokens", per_half_century(1_000));
    let per_address = Policy::fixed_window("addresses", per_half_century(50));
    let layer = limiter.layer(per_token.by(Bearer)).and(per_address.by(ClientIp::peer()));
    let server = raw::serve(Router::new().route("/", get(|| async {}).layer(layer))).await;
    let requests = (0..10_000).map(|number| raw::get(&format!("authorization: {}", token(number))));
    let statuses = raw::pipelined(3, server, requests).await;
    // Two of five tokens are well-formed; the others are no identity.
    assert_eq!([200, 401, 429].map(|status| raw::count(&statuses, status)), [20, 30, 9_950]);
}
