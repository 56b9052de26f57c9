//! Instances that share a Redis.

use portcullis::Limiter;
use portcullis_servers::{Connection, RedisServer};

use super::super::redis::limiter;
use super::*;

const RULES: &str = r#"
[policy.used]
strategy = "token_bucket"
quota = "100/365d"
key = "client_ip"
match = { path = "/used" }

[policy.released]
strategy = "sliding_log"
quota = "100/365d"
key = "client_ip"
match = { path = "/released" }
reserve = "nothing"
"#;

const USED: &[(&str, &str)] = &[(":path", "/used"), ("remote_address", "192.0.2.1")];
const RELEASED: &[(&str, &str)] = &[(":path", "/released"), ("remote_address", "192.0.2.1")];

async fn instance(redis: &RedisServer) -> RateLimitService {
    RateLimitService::envoy(limiter(redis).await, descriptors(LIMITS))
}

async fn native(redis: &RedisServer) -> RateLimitService {
    native_by(limiter(redis).await, &Loader::text("limits.toml", Format::Toml, RULES))
}

#[tokio::test]
async fn other_instance_commits_once() {
    let redis = RedisServer::start().unwrap();
    let [one, other] = [instance(&redis).await, instance(&redis).await];
    let id = reserve(&one, reservation(&[ADA, ALL], 60)).await;
    assert_eq!(commit(&other, &id, 161).await, Err(tonic::Code::InvalidArgument));
    assert_eq!(commit_in(&other, "elsewhere", &id, 1).await, Err(tonic::Code::NotFound));
    for service in [&other, &one, &other] {
        assert_eq!(commit(service, &id, 10).await, Ok(true));
        assert_eq!([left(&one, ADA).await, left(&one, ALL).await], [90, 140]);
    }
    let id = reserve(&one, reservation(&[BOB], 60)).await;
    let over = limited(&[("x", "y")], 7, 2);
    let of_call = ReserveRequest { descriptors: vec![over.clone()], ..reservation(&[BOB], 7) };
    let of_override = reserve(&one, of_call).await;
    assert_eq!(commit(&one, &id, 70).await, Ok(true));
    assert_eq!(commit(&other, &id, 70).await, Ok(true), "answered by the record");
    assert_eq!(left(&other, BOB).await, 30);
    assert_eq!(commit(&other, &of_override, 3).await, Ok(true));
    let asked = decide(&one, &of([RateLimitDescriptor { hits_addend: Some(0), ..over }])).await;
    assert_eq!(asked.statuses[0].limit_remaining, 4);
}

#[tokio::test]
async fn native_rules_are_committed_elsewhere() {
    let redis = RedisServer::start().unwrap();
    let [one, other] = [native(&redis).await, native(&redis).await];
    let id = reserve(&one, reservation(&[USED, RELEASED], 60)).await;
    assert_eq!(commit(&other, &id, 80).await, Ok(true));
    assert_eq!([left(&one, USED).await, left(&one, RELEASED).await], [20, 20]);
    let elsewhere = Limiter::redis(redis.admin_url()).namespace("elsewhere");
    let elsewhere = elsewhere.secret("2026", b"sixteen-bytes-ok").await.unwrap();
    let elsewhere = native_by(elsewhere, &Loader::text("limits.toml", Format::Toml, RULES));
    assert_eq!(commit(&elsewhere, &id, 80).await, Err(tonic::Code::NotFound), "of another namespace");
}

/// Whoever claims it, one settles.
#[tokio::test(flavor = "multi_thread")]
async fn commits_at_once_settle_once() {
    let redis = RedisServer::start().unwrap();
    let services = [instance(&redis).await, instance(&redis).await, instance(&redis).await];
    for round in 1..=10_u32 {
        let id = reserve(&services[0], reservation(&[ADA], 10)).await;
        let mut commits = tokio::task::JoinSet::new();
        for index in 0..12 {
            let (service, id) = (services[index % 3].clone(), id.clone());
            commits.spawn(async move { commit(&service, &id, 1).await });
        }
        let answers = commits.join_all().await;
        let is_right =
            |answer: &Result<bool, tonic::Code>| matches!(answer, Ok(true) | Err(tonic::Code::Unavailable));
        assert!(answers.iter().all(is_right) && answers.contains(&Ok(true)), "{answers:?}");
        assert_eq!(left(&services[1], ADA).await, 100 - round);
        assert_eq!(commit(&services[2], &id, 1).await, Ok(true));
    }
}

#[tokio::test]
async fn end_gives_back_once_what_the_rule_says() {
    let redis = RedisServer::start().unwrap();
    let [one, other] = [native(&redis).await, native(&redis).await];
    let call = |entries| ReserveRequest { ttl: seconds(1), ..reservation(&[entries], 60) };
    let used = reserve(&one, call(USED)).await;
    let released = reserve(&one, call(RELEASED)).await;
    let committed = reserve(&one, ReserveRequest { amount: 30, ..call(RELEASED) }).await;
    assert_eq!(commit(&other, &committed, 30).await, Ok(true));
    while left(&other, RELEASED).await != 70 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for id in [&used, &released] {
        while commit(&other, id, 0).await != Err(tonic::Code::NotFound) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(left(&other, USED).await < 100, "a commit after the end is none");
        }
    }
    assert_eq!([left(&one, USED).await, left(&one, RELEASED).await], [40, 70]);
}

/// An instance that dies settles nothing. Others commit its reservations until they end, and what they hold stays charged then.
#[tokio::test]
async fn dead_instance_leaves_reservations_to_others() {
    let redis = RedisServer::start().unwrap();
    let [one, other] = [native(&redis).await, native(&redis).await];
    let committed = reserve(&one, reservation(&[RELEASED], 20)).await;
    let lost = reserve(&one, ReserveRequest { ttl: seconds(1), ..reservation(&[RELEASED], 50) }).await;
    drop(one);
    assert_eq!(commit(&other, &committed, 5).await, Ok(true));
    assert_eq!(left(&other, RELEASED).await, 45);
    assert!(reserve(&other, reservation(&[RELEASED], 46)).await.is_empty(), "the limit holds meanwhile");
    // Its record is kept for a minute after its end.
    assert_eq!(commit(&other, &lost, 50).await, Ok(true));
    assert_eq!(left(&other, RELEASED).await, 45);
}

/// A record is read as what it is: bytes that anybody with Redis may have written.
#[tokio::test]
async fn malformed_record_is_not_found() {
    let redis = RedisServer::start().unwrap();
    let [one, other] = [instance(&redis).await, instance(&redis).await];
    let id = reserve(&one, reservation(&[ADA], 60)).await;
    let name = format!("portcullis:v2:2026:{{{id}}}:record");
    let mut connection = Connection::open(redis.port()).unwrap();
    let mut run = |words: &[&[u8]]| {
        connection.send(&portcullis_servers::encode_command(words)).unwrap();
        connection.receive().unwrap()
    };
    let portcullis_servers::Reply::BulkString(record) = run(&[b"GET", name.as_bytes()]) else {
        panic!("the record is there");
    };
    for length in 0..record.len() {
        run(&[b"SET", name.as_bytes(), &record[..length]]);
        assert_eq!(commit(&other, &id, 1).await, Err(tonic::Code::NotFound), "{length} bytes");
    }
    run(&[b"DEL", name.as_bytes()]);
    run(&[b"LPUSH", name.as_bytes(), b"x"]);
    assert_eq!(commit(&other, &id, 1).await, Err(tonic::Code::NotFound));
    assert_eq!(left(&one, ADA).await, 40);
    assert_eq!(commit(&one, &id, 1).await, Err(tonic::Code::NotFound), "its instance cannot claim it either");
    assert_eq!(left(&one, ADA).await, 40);
}

/// Without Redis a reservation is one of its instance, as the limit is.
#[tokio::test]
async fn reservation_in_an_outage_is_of_its_instance() {
    let redis = RedisServer::start().unwrap();
    let service = instance(&redis).await;
    let shared = reserve(&service, reservation(&[ADA], 60)).await;
    drop(redis);
    let id = reserve(&service, reservation(&[BOB], 60)).await;
    assert_eq!(left(&service, BOB).await, 40);
    assert_eq!(commit(&service, &id, 10).await, Ok(true));
    assert_eq!(left(&service, BOB).await, 90);
    assert_eq!(
        commit(&service, &shared, 10).await,
        Err(tonic::Code::Unavailable),
        "the store has to be asked"
    );
}
