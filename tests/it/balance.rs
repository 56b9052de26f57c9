//! The balance of a random run: three processes charge, hold, settle and refund units of shared keys in one Redis. The units that
//! it has in the end are exactly those that the responses have reported.

mod operators;

use std::time::Duration;

use axum::http::request::Builder;
use axum::http::{Request, Response};
use fastrand::Rng;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_testing::timeline::{seed, steps};
use portcullis_tests::HttpClient;
use tokio::task::JoinSet;

use crate::process::Process;

/// A client of one process.
struct Client {
    url: String,
    http: HttpClient,
    random: Rng,
    id: u64,
    report: Report,
    /// Streams that the process ends when it is stopped.
    open: Vec<Incoming>,
}

/// What the responses have reported.
#[derive(Debug, Default)]
struct Report {
    charged: [u64; USERS.len()],
    requests: usize,
    denied: usize,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.charged.iter_mut().zip(other.charged).for_each(|(sum, units)| *sum += units);
        self.requests += other.requests;
        self.denied += other.denied;
    }
}

impl Client {
    async fn run(mut self, requests: usize) -> Self {
        for _ in 0..requests {
            self.request().await;
        }
        self
    }

    async fn request(&mut self) {
        self.report.requests += 1;
        let user = self.random.usize(..USERS.len());
        let (path, then) = *self.random.choice(&OPERATIONS).expect("there is one");
        let (cost, units) = (1 + self.random.u64(..5), self.random.u64(..8));
        self.id += 1;
        let request = Request::get(format!("{}{path}", self.url))
            .header("x-user", USERS[user])
            .header("x-cost", cost)
            .header("x-units", units)
            .header("x-then", then)
            .header("x-id", self.id);
        if (path, then) == ("/hold", "hang") {
            // The client leaves before there is a response, and so the units stay charged.
            match answer_unless_it_hangs(&self.http, &self.url, self.id, request).await {
                None => self.report.charged[user] += cost,
                Some(429) => self.report.denied += 1,
                Some(status) => panic!("{path} {then}: {status}"),
            }
            return;
        }
        let response = self.http.start(request, ()).await;
        let status = response.status().as_u16();
        match status {
            429 => self.report.denied += 1,
            200 | 401 => self.report.charged[user] += charged(&response),
            _ => {}
        }
        let mut body = response.into_body();
        if (path, then, status) != ("/use", "hang", 200) {
            let body = body.collect().await.unwrap().to_bytes();
            assert!(matches!(status, 200 | 401 | 429), "{path} {then}: {status} {body:?}");
            return;
        }
        assert!(body.frame().await.unwrap().unwrap().is_data());
        // Otherwise the client leaves half-way.
        if self.open.len() < MAX_OPEN && self.random.u64(..2) == 0 {
            self.open.push(body);
        }
    }
}

/// Sends a request, and leaves when its handler hangs. Returns the status of the response if there is one instead.
async fn answer_unless_it_hangs(http: &HttpClient, url: &str, id: u64, request: Builder) -> Option<u16> {
    let arrived = async {
        loop {
            let question = Request::get(format!("{url}/arrived")).header("x-id", id);
            let answer = http.send(question, ()).await.into_body();
            if answer == "true" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        response = http.start(request, ()) => Some(response.status().as_u16()),
        () = within_a_minute("arrival", arrived) => None,
    }
}

fn charged<B>(response: &Response<B>) -> u64 {
    response.headers()["x-charged"].to_str().unwrap().parse().unwrap()
}

/// Sends requests to a process from several clients, and stops it while some of its streams are open.
async fn run(process: Process, clients: u64, requests: usize, seed: u64) -> Report {
    let mut running = JoinSet::new();
    for index in 0..clients {
        let client = Client {
            url: process.url.clone(),
            http: if index % 2 == 0 { HttpClient::http_1() } else { HttpClient::http_2() },
            random: Rng::with_seed(seed ^ (index << 32)),
            id: index << 32,
            report: Report::default(),
            open: Vec::new(),
        };
        running.spawn(client.run(requests));
    }
    let clients = running.join_all().await;
    assert_eq!(process.stop().await, (0, 0), "settlements that are left or lost");
    let mut report = Report::default();
    for client in clients {
        report.add(&client.report);
        for body in client.open {
            body.collect().await.expect("the process ends its streams");
        }
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_the_units_that_responses_have_reported() {
    let redis = RedisServer::start().unwrap();
    let seed = seed();
    println!("seed {seed} (PORTCULLIS_SEED={seed} repeats the requests)");
    let mut running = JoinSet::new();
    // The first one is stopped while the others run.
    for (index, requests) in (0_u64..).zip([REQUESTS / 3, REQUESTS, REQUESTS]) {
        let process = Process::shared_budget(&redis.url(), LIMIT).await;
        running.spawn(run(process, CLIENTS, requests, seed ^ (index << 48)));
    }
    let mut report = Report::default();
    running.join_all().await.iter().for_each(|of_process| report.add(of_process));
    println!("{report:?}");
    let total: u64 = report.charged.iter().sum();
    assert_eq!(units(&redis, "user"), total, "{report:?}");
    assert_eq!(units(&redis, "all"), total, "{report:?}");
    assert!(report.denied > 0 && report.denied < report.requests / 2, "{report:?}");
}

/// The units that Redis has counted under a policy.
fn units(redis: &RedisServer, policy: &str) -> u64 {
    redis.cli(&["EVAL", UNITS, "0", &format!("*:{policy}:*")]).unwrap().parse().unwrap()
}

const USERS: [&str; 3] = ["ada", "bob", "eve"];
/// The units of each user, of which some requests find too few left.
const LIMIT: u64 = 600;
const CLIENTS: u64 = 4;
/// The requests of a client.
const REQUESTS: usize = 90;
/// The streams of a client that are open when its process is stopped.
const MAX_OPEN: usize = 3;
const OPERATIONS: [(&str, &str); 13] = [
    ("/charge", "keep"),
    ("/charge", "more"),
    ("/charge", "settle"),
    ("/charge", "refund"),
    ("/check", "keep"),
    ("/check", "more"),
    ("/check", "settle"),
    ("/check", "refund"),
    ("/hold", "fail"),
    ("/hold", "succeed"),
    ("/hold", "hang"),
    ("/use", "end"),
    ("/use", "hang"),
];
/// The state of a fixed window is its end, its length and the units.
const UNITS: &str = "
    local units = 0
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
        if string.sub(key, -9) ~= ':override' then
            local _, _, counted = struct.unpack('<ddd', redis.call('GET', key))
            units = units + counted
        end
    end
    return units";
