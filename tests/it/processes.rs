//! Two processes on one Redis share one budget, exact to the unit.

use std::time::{Duration, Instant};

use axum::http::Request;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::task::JoinSet;

use crate::process::{Process, timing_lock};

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_one_budget_exactly() {
    let _lock = timing_lock().await;
    let redis = RedisServer::start().unwrap();
    let budget = 250;
    let servers = [
        Process::shared_budget(&redis.url(), budget).await,
        Process::shared_budget(&redis.url(), budget).await,
    ];

    let client = HttpClient::http_1();
    let mut requests = JoinSet::new();
    for server in &servers {
        for _ in 0..200 {
            let (client, request) = (client.clone(), Request::get(format!("{}/closed", server.url)));
            requests.spawn(async move { client.send(request, ()).await.status().as_u16() });
        }
    }
    let answers = requests.join_all().await;
    let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(200), count(429)), (250, 150), "and {} failures of the store", count(503));
}

/// The number of requests for the leased budget that the servers admit, of this number for each of them at a time.
async fn admitted(servers: &[Process], each: usize) -> u64 {
    let mut clients = JoinSet::new();
    for server in servers {
        let (client, url) = (HttpClient::http_1(), format!("{}/leased", server.url));
        clients.spawn(async move {
            let mut admitted = 0;
            for _ in 0..each {
                admitted += u64::from(client.send(Request::get(&url), ()).await.status() == 200);
            }
            admitted
        });
    }
    clients.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_with_leases_admit_one_budget() {
    let _lock = timing_lock().await;
    let redis = RedisServer::start().unwrap();
    let (budget, lease) = (800, 80);
    let url = redis.url();
    let start = || Process::shared_budget(&url, budget);
    let mut servers = [start().await, start().await];
    let mut passed = admitted(&servers, 250).await;
    // The process is killed with what it has in lease, and its units stay charged.
    servers[0] = start().await;
    let started = Instant::now();
    while passed < budget - lease {
        passed += admitted(&servers, 100).await;
        assert!(started.elapsed() < Duration::from_secs(60), "{passed} of {budget} units admitted");
    }
    passed += admitted(&servers, 200).await;
    let calls = redis.calls("evalsha").unwrap();
    println!("{passed} of {budget} units admitted, by {calls} calls");
    assert!((budget - lease..=budget).contains(&passed), "{passed} of {budget} units admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_each_process_and_each_start_has_one_budget() {
    let _lock = timing_lock().await;
    let mut redis = RedisServer::start().unwrap();
    let budget = 25;
    let url = redis.url();
    let start = || Process::shared_budget(&url, budget);
    let mut servers = [start().await, start().await];
    let passed = async |servers: &[Process]| {
        let mut passed = 0;
        for server in servers {
            for _ in 0..2 * budget {
                passed += u64::from(server.get("/local").await.status() == 200);
            }
        }
        passed
    };
    assert_eq!(passed(&servers).await, budget, "with Redis the processes share one budget");
    redis.kill().unwrap();
    assert_eq!(passed(&servers).await, 2 * budget);
    servers[0] = start().await;
    assert_eq!(passed(&servers).await, budget, "the process that was not restarted has spent its budget");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_an_outage_closed_answers_503_and_open_is_degraded() {
    let _lock = timing_lock().await;
    let mut redis = RedisServer::start().unwrap();
    let server = Process::shared_budget(&redis.url(), 5).await;
    assert_eq!(server.get("/closed").await.status(), 200);
    redis.kill().unwrap();
    for _ in 0..5 {
        let closed = server.get("/closed").await;
        assert_eq!(closed.status(), 503);
        assert!(!closed.headers().contains_key("x-ratelimit-limit"), "a failure is not a limit");
        let open = server.get("/open").await;
        assert_eq!(open.status(), 200);
        assert_eq!(open.body(), "degraded");
    }
}
