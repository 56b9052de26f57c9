//! Processes that share a Redis, and so what they may send.

use super::*;
use crate::process::Process;
use portcullis_tests::HttpClient;

/// What becomes of a call that a process makes to a server.
async fn call(process: &Process, server: &Server) -> String {
    let request = Request::get(format!("{}/call", process.url)).header("x-target", &server.url);
    let answer = HttpClient::http_1().send(request, ()).await;
    String::from_utf8(answer.into_body().to_vec()).unwrap()
}

async fn two_processes(redis: &RedisServer, budget: u64) -> [Process; 2] {
    let url = redis.url();
    [Process::shared_budget(&url, budget).await, Process::shared_budget(&url, budget).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_send_what_one_policy_allows() {
    let redis = RedisServer::start().unwrap();
    let server = Server::start(too_many()).await;
    let processes = two_processes(&redis, 25).await;
    let mut answers = Vec::new();
    for _ in 0..20 {
        for process in &processes {
            answers.push(call(process, &server).await);
        }
    }
    let (sent, rest) = answers.split_at(25);
    assert!(sent.iter().all(|answer| answer == "200"), "{answers:?}");
    assert!(rest.iter().all(|answer| answer == "limited"), "{answers:?}");
    assert_eq!(server.arrived(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_one_process_stops_the_other() {
    let redis = RedisServer::start().unwrap();
    let server = Server::start(Policy::gcra("served", Quota::per_hour(1))).await;
    let [one, other] = two_processes(&redis, 25).await;
    assert_eq!(call(&one, &server).await, "200");
    assert_eq!(call(&one, &server).await, "429");
    assert_eq!(call(&other, &server).await, "closed");
    assert_eq!(server.arrived(), 2);
}
