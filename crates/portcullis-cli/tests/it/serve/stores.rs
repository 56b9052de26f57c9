//! Services on Redis, which is there or not.

use std::io::Write as _;

use portcullis_servers::RedisServer;

use super::process::{Service, rest};
use super::{ADA, SHOP, post};

fn is_unreachable(service: &Service) -> bool {
    let page = service.get("/readyz");
    page.starts_with("HTTP/1.1 503") && page.contains("\"store_unreachable\"")
}

fn is_ready(service: &Service) -> bool {
    service.get("/readyz").starts_with("HTTP/1.1 200")
}

#[test]
fn readiness_follows_a_redis_server_that_ends_and_comes_back() {
    let mut redis = RedisServer::start().unwrap();
    let service = Service::start("shop.yaml", SHOP, &["--store", &redis.url()]);
    service.wait_until("ready", is_ready);
    redis.kill().unwrap();
    service.wait_until("not ready", is_unreachable);
    let mut stream = service.connect("http");
    stream.write_all(format!("{}{ADA}", post(ADA.len())).as_bytes()).unwrap();
    assert!(rest(&mut stream).starts_with("HTTP/1.1 200"), "the failure mode decides");
    assert!(service.get("/healthz").starts_with("HTTP/1.1 200"), "it lives");
    redis.restart().unwrap();
    service.wait_until("ready again", is_ready);
}

#[test]
fn service_starts_without_its_store() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let service = Service::start("shop.yaml", SHOP, &["--store", &redis.url()]);
    assert!(is_unreachable(&service));
    let without = Service::start("shop.yaml", SHOP, &["--store", &redis.url(), "--ready-without-store"]);
    assert!(is_ready(&without));
    let call = format!("{}{ADA}", post(ADA.len()));
    assert!(service.ask(&call).starts_with("HTTP/1.1 200"), "the limit is enforced in memory");
    let closed = ["--store", &redis.url(), "--on-store-failure", "closed"];
    let answer = Service::start("shop.yaml", SHOP, &closed).ask(&call);
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    redis.restart().unwrap();
    service.wait_until("ready", is_ready);
}

/// The head of a call with a body of this length.
fn post_to(path: &str, length: usize) -> String {
    post(length).replacen("/json", path, 1)
}

#[test]
fn killed_service_leaves_reservations_to_others() {
    let redis = RedisServer::start().unwrap();
    let text = SHOP.replace("requests_per_unit: 1 ", "requests_per_unit: 100 ");
    let start = || Service::start("shop.yaml", &text, &["--store", &redis.url(), "--store-deadline", "5s"]);
    let [mut one, other] = [start(), start()];
    let reserve = ADA.replacen('{', r#"{"amount": 60, "ttl": "3600s","#, 1);
    let reserved = one.ask(&format!("{}{reserve}", post_to("/json/reserve", reserve.len())));
    let id = reserved.split_once("\"reservationId\":\"").unwrap().1.split('"').next().unwrap().to_owned();
    one.signal("KILL");
    one.wait_until_gone();
    let denied = other.ask(&format!("{}{reserve}", post_to("/json/reserve", reserve.len())));
    assert!(denied.starts_with("HTTP/1.1 429"), "what it holds stays charged: {denied}");
    let commit = format!(r#"{{"domain": "shop", "reservationId": "{id}", "actualAmount": 25}}"#);
    for _ in 0..2 {
        let answer = other.ask(&format!("{}{commit}", post_to("/json/commit", commit.len())));
        assert!(answer.contains(r#"{"reservationReleased":true}"#), "{answer}");
    }
    let check = ADA.replacen("\"entries\"", "\"hitsAddend\": 0, \"entries\"", 1);
    let answer = other.ask(&format!("{}{check}", post(check.len())));
    assert!(answer.contains("\"limitRemaining\":75"), "{answer}");
}

#[test]
fn two_services_share_a_limit() {
    let redis = RedisServer::start().unwrap();
    let start = || Service::start("shop.yaml", SHOP, &["--store", &redis.url(), "--store-deadline", "5s"]);
    let services = [start(), start()];
    let call = format!("{}{ADA}", post(ADA.len()));
    assert!(services[0].ask(&call).starts_with("HTTP/1.1 200"));
    assert!(services[1].ask(&call).starts_with("HTTP/1.1 429"));
}
