//! Instances without a shared store, each with a fixed share of the limits. The table in docs/how-to/operate/sizing.md is what they admit.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::store::{Checks, InstanceShare, MemoryStore};
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_testing::ManualClock;
use tokio::net::TcpListener;

/// Instances that each have a share of 120 per minute, and a clock that all of them read.
struct Instances {
    limiters: Vec<Limiter>,
    clock: ManualClock,
}

/// How a load balancer spreads the requests of one client.
enum Spread {
    /// In these proportions, which add up to 10.
    Tenths(&'static [usize]),
    /// To each instance in turn.
    InTurn,
    /// To any instance, with equal probability.
    AtRandom,
}

const MINUTE: Policy = Policy::fixed_window("minute", Quota::per_minute(120));

impl Instances {
    fn new(running: usize, instances: u32) -> Self {
        let clock = ManualClock::default();
        let store = || InstanceShare::new(MemoryStore::builder().clock(clock.clone()).build(), instances);
        let limiters = (0..running).map(|_| Limiter::new(store(), Secret::published())).collect();
        Self { limiters, clock }
    }

    async fn is_admitted(&self, instance: usize) -> bool {
        let limiter = &self.limiters[instance];
        let key = limiter.key(|key| key.part("user", b"ada")).unwrap();
        limiter.store().check(Checks::one(MINUTE, key, 1)).await.unwrap().is_allowed()
    }

    /// The number of requests of one client that are admitted in a minute, on average over `minutes`.
    async fn admitted(&self, spread: &Spread, requests: usize, minutes: u32) -> u32 {
        let mut admitted = 0;
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..minutes {
            for request in 0..requests {
                let instance = match spread {
                    Spread::InTurn => request % self.limiters.len(),
                    Spread::Tenths(tenths) => nth_instance(tenths, request % 10),
                    Spread::AtRandom => rng.usize(..self.limiters.len()),
                };
                admitted += u32::from(self.is_admitted(instance).await);
            }
            self.clock.advance(Duration::from_secs(60));
        }
        (admitted + minutes / 2) / minutes
    }
}

/// The instance that gets the request of this number among ten.
fn nth_instance(tenths: &[usize], request: usize) -> usize {
    let mut before = 0;
    tenths
        .iter()
        .position(|tenths| {
            before += tenths;
            request < before
        })
        .unwrap()
}

#[tokio::test]
async fn the_table_is_what_shares_admit() {
    let page = include_str!("../../docs/how-to/operate/sizing.md");
    for (spread, running, how, minutes) in [
        (Spread::InTurn, 4, "to each of the 4 in turn", 1),
        (Spread::AtRandom, 4, "to any of the 4, at random", 4_000),
        (Spread::Tenths(&[4, 3, 2, 1]), 4, "40, 30, 20 and 10 %", 1),
        (Spread::Tenths(&[5, 5]), 4, "to two of the 4", 1),
        (Spread::Tenths(&[10]), 4, "to one of the 4: a connection that is kept, sticky sessions", 1),
        (Spread::InTurn, 2, "in turn, and only 2 run", 1),
        (Spread::InTurn, 6, "in turn, and 6 run", 1),
        (Spread::InTurn, 8, "in turn, and 8 run, as during a deployment", 1),
    ] {
        let (at_the_limit, beyond) = (
            Instances::new(running, 4).admitted(&spread, 120, minutes).await,
            Instances::new(running, 4).admitted(&spread, 1_200, minutes.min(10)).await,
        );
        let row = format!("| {how} | {at_the_limit} | {beyond} |");
        assert!(page.lines().any(|line| line == row), "docs/how-to/operate/sizing.md has no row {row}");
    }
}

/// Starts servers that each have a fourth of 8 requests. Returns their URLs.
async fn serve(running: usize) -> Vec<String> {
    let mut urls = Vec::new();
    for _ in 0..running {
        let exports = Policy::token_bucket(
            "exports",
            Quota::new(1, Duration::from_secs(240 * 3_600), Some(8)).unwrap(),
        );
        let limit = Limiter::memory_among(4).layer(exports.by(Global));
        let app = Router::new().route("/", get(async || "export")).layer(limit);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        urls.push(format!("http://{}/", listener.local_addr().unwrap()));
        tokio::spawn(axum::serve(listener, app).into_future());
    }
    urls
}

#[tokio::test]
async fn four_servers_admit_one_limit_together() {
    let servers = serve(4).await;
    let mut admitted = 0;
    for url in servers.iter().cycle().take(16) {
        let response = portcullis_tests::get(url).await;
        assert_eq!(response.headers()["x-ratelimit-limit"], "2", "the figures are those of the instance");
        admitted += u32::from(response.status() == 200);
    }
    assert_eq!(admitted, 8);
}

#[tokio::test]
async fn a_client_of_one_server_gets_one_share() {
    let url = serve(1).await.remove(0);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(portcullis_tests::get(&url).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_policy_whose_share_takes_too_long_is_an_error_of_the_layer() {
    let monthly = Policy::fixed_window("monthly", Quota::per(1, Duration::from_secs(720 * 3_600)));
    let error = Limiter::memory_among(1_000).try_layer([monthly.by(Global)]).unwrap_err().to_string();
    assert!(error.contains("policy monthly") && error.ends_with("name fewer instances"), "{error}");
}
