//! `portcullis serve` as a process.

mod documents;
mod process;
mod stores;
mod tls;
mod web_pages;

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use process::{RULES, Service, folder, read_until, rest, run};

const SHOP: &str =
    "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 1 }\n";
/// A call for native rules.
const ADDRESS: &str =
    r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}"#;
const ADA: &str = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;

/// The head of a check with a body of this length.
fn post(length: usize) -> String {
    format!(
        "POST /json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

#[test]
fn descriptor_files_of_envoy_are_recognised() {
    let service = Service::start("shop.yaml", SHOP, &[]);
    assert_eq!((&service.started["format"], &service.started["store"]), (&"envoy".into(), &"memory".into()));
    for status in ["200", "429"] {
        let answer = service.ask(&format!("{}{ADA}", post(ADA.len())));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[test]
fn native_rules_answer_checks_of_proxies() {
    let service = Service::start("limits.toml", RULES, &[]);
    assert_eq!(service.started["format"], "native");
    let check = "GET /check/caddy HTTP/1.1\r\nhost: localhost\r\nx-forwarded-method: GET\r\nx-forwarded-uri: /\r\n\
                 x-forwarded-host: localhost\r\nx-forwarded-for: 192.0.2.1\r\nconnection: close\r\n\r\n";
    assert!(service.ask(check).starts_with("HTTP/1.1 200"));
    let denied = service.ask(check);
    assert!(denied.starts_with("HTTP/1.1 429") && denied.contains("retry-after: "), "{denied}");
    let metrics = service.get("/metrics");
    assert!(metrics.contains("portcullis_decisions_total{policy=\"all\",outcome=\"denied\"} 1"), "{metrics}");
}

#[test]
fn addresses_beyond_loopback_need_client_certificates_or_a_flag() {
    let folder = folder();
    let rules = folder.write("limits.toml", RULES);
    for (name, others) in [("grpc", ["--http", "off"]), ("http", ["--grpc", "off"])] {
        let exposed = ["serve", &rules, &format!("--{name}"), "0.0.0.0:0", others[0], others[1]];
        let (code, out, error) = run(&exposed);
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(&format!("--allow-unauthenticated {name}")), "{error}");
    }
    let allowed = ["--grpc", "0.0.0.0:0", "--allow-unauthenticated", "grpc"];
    let service = Service::start("limits.toml", RULES, &allowed);
    assert!(service.started["grpc"].as_str().unwrap().starts_with("0.0.0.0:"));
}

#[test]
fn mistakes_end_the_start_with_an_exit_code() {
    let folder = folder();
    let broken = folder.write("broken.toml", "[policy.all]\nquota = \"much\"\n");
    let rules = folder.write("limits.toml", RULES);
    let permits = folder.write("permits.toml", &format!("{RULES}in_flight = {{ limit = 4 }}\n"));
    let cost = "cost = { header = \"content-length\", max = 9 }\n";
    let lengths = folder.write("lengths.toml", &format!("{RULES}{cost}"));
    for (arguments, expected) in [
        (vec!["serve", &permits], 1),
        (vec!["serve", &permits, "--no-check"], 1),
        (vec!["serve", &lengths], 1),
        (vec!["serve", &broken], 1),
        (vec!["serve", &rules, "--store", "elsewhere"], 2),
        (vec!["serve", &rules, "--grpc", "off", "--http", "off"], 2),
        (vec!["serve", &rules, "--grpc", "off", "--no-check"], 2),
        (vec!["serve", &rules, "--admin", "127.0.0.1:0"], 2),
        (vec!["serve", &rules, "--max-connections", "0"], 2),
        (vec!["serve", &rules, "--header-timeout", "0s"], 2),
    ] {
        let (code, out, error) = run(&arguments);
        assert_eq!((code, out.as_str()), (expected, ""), "{arguments:?}: {error}");
        assert!(!error.is_empty(), "{arguments:?}");
    }
}

#[test]
fn unusable_store_is_named_with_its_code() {
    let folder = folder();
    let rules = folder.write("limits.toml", RULES);
    for (arguments, expected) in [
        (
            vec!["serve", &rules, "--store", "http://127.0.0.1"],
            "portcullis: the store http://127.0.0.1: `http://127.0.0.1",
        ),
        (
            vec!["rules", "show", "--store", "http://127.0.0.1", "--verify-key", VERIFY_KEY],
            "portcullis: `http://127.0.0.1",
        ),
    ] {
        let (_, _, error) = run(&arguments);
        assert!(error.starts_with(expected) && error.ends_with(" (PC317)\n"), "{arguments:?}: {error}");
    }
}

const VERIFY_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// Rules that believe a header of a named proxy, which calls of Envoy do not have.
const TRUSTING: &str = "[client_ip]\nheader = \"x-forwarded-for\"\ntrusted_proxies = [\"192.0.2.1/32\"]\n\
    [policy.plan]\nstrategy = \"fixed_window\"\nquota = \"1/18250d\"\nkey = { header = \"x-user\", trusted = true }\n\
    [policy.all]\nstrategy = \"gcra\"\nquota = \"100/s burst 100\"\nkey = \"client_ip\"\n";

#[test]
fn rules_of_checks_need_no_descriptors_without_grpc() {
    let folder = folder();
    let rules = folder.write("limits.toml", TRUSTING);
    let (code, _, error) = run(&["serve", &rules]);
    assert!(code == 1 && error.contains("Envoy shows only descriptors"), "{error}");
    assert!(error.ends_with("`--grpc off` leaves them out\n"), "{error}");
    let service = Service::start("limits.toml", TRUSTING, &["--grpc", "off", "--poll", "20ms"]);
    let check = |user: &str| {
        service.ask(&format!(
            "GET /check/nginx HTTP/1.1\r\nhost: localhost\r\nx-original-method: GET\r\nx-original-uri: /\r\n\
             x-original-host: localhost\r\nx-original-address: 192.0.2.1\r\nx-forwarded-for: 203.0.113.9\r\n\
             x-user: {user}\r\nconnection: close\r\n\r\n"
        ))
    };
    assert!(check("ada").starts_with("HTTP/1.1 200"));
    assert!(check("ada").contains("x-check-status: 429"));
    assert!(check("grace").starts_with("HTTP/1.1 200"));
    assert!(service.ask(&format!("{}{ADA}", post(ADA.len()))).starts_with("HTTP/1.1 404"));
    service.write_rules(&format!("{TRUSTING}in_flight = {{ limit = 4 }}\n"));
    service.wait_until("refused", |service| is_ready(service, true));
    assert!(check("ada").contains("x-check-status: 429"), "checks refuse what they do not see");
}

#[test]
fn large_heads_and_bodies_are_refused() {
    let service =
        Service::start("shop.yaml", SHOP, &["--max-header-bytes", "8192", "--max-body-bytes", "200"]);
    let answer =
        service.ask(&format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(9_000)));
    // The server may close the connection before it has read everything, and its answer is lost then.
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(service.ask(&post(201)).starts_with("HTTP/1.1 413"));
    let chunked =
        "POST /json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = " ".repeat(256);
    let answer = service.ask(&format!("{chunked}100\r\n{body}\r\n0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(
        service.ask(&format!("{}{ADA}", post(ADA.len()))).starts_with("HTTP/1.1 200"),
        "nothing was charged"
    );
}

#[test]
fn slow_head_is_cut_off() {
    let service = Service::start("limits.toml", RULES, &["--header-timeout", "100ms"]);
    let mut stream = service.connect("http");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost:").unwrap();
    assert_eq!(rest(&mut stream), "");
}

#[test]
fn slow_body_is_ended_by_the_request_timeout() {
    let service = Service::start("shop.yaml", SHOP, &["--request-timeout", "100ms"]);
    let answer = service.ask(&format!("{}{{", post(ADA.len())));
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn connections_beyond_the_limit_wait() {
    let service = Service::start("shop.yaml", SHOP, &["--max-connections", "1"]);
    let mut first = service.connect("http");
    // The server asks for the body, which does not come.
    let head = post(ADA.len()).replacen("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n", 1);
    first.write_all(head.as_bytes()).unwrap();
    read_until(&mut first, "100 Continue\r\n\r\n");
    let mut second = service.connect("http");
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert!(!is_readable(&second, Duration::from_millis(100)), "there is no place for it");
    drop(first);
    assert!(rest(&mut second).ends_with("ok\n"));
}

#[test]
fn idle_connection_makes_room() {
    let service = Service::start("limits.toml", RULES, &["--max-connections", "1"]);
    let mut first = service.connect("http");
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    read_until(&mut first, "ok\n");
    assert!(service.get("/healthz").ends_with("ok\n"));
}

#[test]
fn named_proxies_keep_their_connections() {
    let arguments = ["--max-connections", "1", "--trust", "127.0.0.1/32"];
    let service = Service::start("limits.toml", RULES, &arguments);
    let mut first = service.connect("http");
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    first.write_all(request).unwrap();
    read_until(&mut first, "ok\n");
    let mut second = service.connect("http");
    second.write_all(request).unwrap();
    // The second one waits meanwhile.
    for _ in 0..100 {
        first.write_all(request).unwrap();
        read_until(&mut first, "ok\n");
    }
    drop(first);
    read_until(&mut second, "ok\n");
}

#[test]
fn denied_hits_use_up_limits_as_the_flag_says() {
    let text = SHOP
        .replace("  - key", "  - { key: team, rate_limit: { unit: year, requests_per_unit: 2 } }\n  - key");
    let call = |hits: u64, keys: &[&str]| {
        let entries =
            keys.iter().map(|key| format!(r#"{{"entries": [{{"key": "{key}", "value": "ada"}}]}}"#));
        let entries: Vec<_> = entries.collect();
        format!(r#"{{"domain": "shop", "hitsAddend": {hits}, "descriptors": [{}]}}"#, entries.join(","))
    };
    for (arguments, after_two, team) in [
        (&[][..], "429", "200"),
        (&["--charge-denied-hits=reports"], "429", "200"),
        (&["--charge-denied-hits=never"], "200", "200"),
        (&["--charge-denied-hits=always"], "429", "429"),
    ] {
        let service = Service::start("shop.yaml", &text, arguments);
        let ask = |call: &str| service.ask(&format!("{}{call}", post(call.len())))[9..12].to_owned();
        assert_eq!(ask(&call(2, &["user"])), "429");
        assert_eq!(ask(&call(1, &["user"])), after_two, "{arguments:?}");
        for _ in 0..2 {
            assert_eq!(ask(&call(1, &["user", "team"])), "429");
        }
        assert_eq!(ask(&call(1, &["team"])), team, "{arguments:?}");
    }
}

#[test]
fn reports_of_rules_are_refused_beside_checks() {
    let folder = folder();
    let rules = folder.write("limits.toml", &format!("{RULES}report = true\n"));
    let (code, _, error) = run(&["serve", &rules]);
    assert!(code == 1 && error.contains("--no-check"), "{error}");
    Service::start("limits.toml", &format!("{RULES}report = true\n"), &["--no-check"]);
}

/// Whether a byte arrives within this time.
fn is_readable(stream: &TcpStream, time: Duration) -> bool {
    let usual = stream.read_timeout().unwrap();
    stream.set_read_timeout(Some(time)).unwrap();
    let is_readable = stream.peek(&mut [0]).is_ok();
    stream.set_read_timeout(usual).unwrap();
    is_readable
}

/// A service with a request in progress, and its connection.
fn with_request_in_progress(arguments: &[&str]) -> (Service, TcpStream) {
    let service = Service::start("shop.yaml", SHOP, arguments);
    let mut stream = service.connect("http");
    let head = post(ADA.len()).replace("connection: close", "expect: 100-continue");
    stream.write_all(head.as_bytes()).unwrap();
    // The handler reads the body.
    read_until(&mut stream, "100 Continue\r\n\r\n");
    (service, stream)
}

#[test]
fn termination_finishes_a_request_in_progress() {
    let (mut service, mut stream) = with_request_in_progress(&["--status", "127.0.0.1:0"]);
    service.signal("TERM");
    service.wait_until("not ready", |service| service.page("status", "/readyz").contains("\"draining\""));
    service.wait_until("closed", |service| !service.accepts("http"));
    stream.write_all(ADA.as_bytes()).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.contains("200 OK") && answer.contains("\"overallCode\":\"OK\""), "{answer}");
    assert_eq!(service.exit_code(), 0);
}

#[test]
fn request_beyond_the_drain_timeout_is_cut_off() {
    let (mut service, mut stream) = with_request_in_progress(&["--drain-timeout", "50ms"]);
    service.signal("TERM");
    assert_eq!(rest(&mut stream), "");
    assert_eq!(service.exit_code(), 1);
}

#[test]
fn second_signal_ends_the_service_at_once() {
    let (mut service, _stream) =
        with_request_in_progress(&["--status", "127.0.0.1:0", "--drain-timeout", "1h"]);
    service.signal("INT");
    service.wait_until("not ready", |service| service.page("status", "/readyz").contains("\"draining\""));
    service.signal("TERM");
    assert_eq!(service.exit_code(), 1);
}

#[test]
fn service_is_not_ready_for_a_while_before_it_closes() {
    let mut service = Service::start("limits.toml", RULES, &["--ready-delay", "1h"]);
    assert!(service.get("/readyz").starts_with("HTTP/1.1 200"));
    service.signal("TERM");
    service.wait_until("not ready", |service| service.get("/readyz").starts_with("HTTP/1.1 503"));
    assert!(service.accepts("grpc"));
    service.signal("TERM");
    assert_eq!(service.exit_code(), 1);
}

/// Whether a service is ready, and shows whether changed rules are refused.
fn is_ready(service: &Service, is_refused: bool) -> bool {
    let page = service.get("/readyz");
    page.starts_with("HTTP/1.1 200 ")
        && page.ends_with(&format!("\"ready\":true,\"reasons\":[],\"rules_refused\":{is_refused}}}\n"))
}

#[test]
fn refused_rules_stay_ready_until_mended() {
    for (name, good) in [("limits.toml", RULES), ("shop.yaml", SHOP)] {
        let service = Service::start(name, good, &["--poll", "20ms"]);
        service.wait_until("ready", |service| service.get("/readyz").starts_with("HTTP/1.1 200"));
        service.write_rules(&format!("{good}\nbroken"));
        service.wait_until("refused", |service| is_ready(service, true));
        assert!(
            service.get("/metrics").contains("portcullis_rules_reloads_total{outcome=\"rejected\"} 1"),
            "{name}"
        );
        // The rules that apply are restored, as by taking back a commit.
        service.write_rules(good);
        service.wait_until("mended", |service| is_ready(service, false));
    }
}

#[test]
fn emptied_folder_keeps_its_last_limits() {
    let service = Service::start_folder("shops/shop.json", Some(SHOP), &["--poll", "20ms"]);
    service.wait_until("ready", |service| service.get("/readyz").starts_with("HTTP/1.1 200"));
    service.remove_rules();
    service.wait_until("refused", |service| is_ready(service, true));
    for status in ["200", "429"] {
        let answer = service.ask(&format!("{}{ADA}", post(ADA.len())));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    service.write_rules(SHOP);
    service.wait_until("mended", |service| is_ready(service, false));
}

#[test]
fn empty_folder_is_not_ready_without_a_flag() {
    let service = Service::start_folder("shop", None, &["--poll", "20ms"]);
    let not_ready = service.get("/readyz");
    assert!(not_ready.starts_with("HTTP/1.1 503") && not_ready.contains("\"no_rules\""), "{not_ready}");
    service.write_rules(SHOP);
    service.wait_until("ready", |service| service.get("/readyz").starts_with("HTTP/1.1 200"));
    let allowed = Service::start_folder("shop", None, &["--allow-empty"]);
    assert!(allowed.get("/readyz").starts_with("HTTP/1.1 200"));
}

#[test]
fn reload_refuses_what_the_service_cannot_do() {
    let service = Service::start("limits.toml", RULES, &["--poll", "20ms", "--no-check"]);
    service.wait_until("ready", |service| service.get("/readyz").starts_with("HTTP/1.1 200"));
    service.write_rules(&format!("{RULES}in_flight = {{ limit = 4 }}\n"));
    service.wait_until("refused", |service| is_ready(service, true));
    for status in ["200", "429"] {
        let answer = service.ask(&(post(ADDRESS.len()) + ADDRESS));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    service.write_rules(RULES);
    service.wait_until("mended", |service| is_ready(service, false));
}

#[test]
fn admin_api_needs_the_token() {
    let folder = folder();
    let short = folder.write("short", "fifteen-letters\n");
    let rules = folder.write("limits.toml", RULES);
    let (code, _, error) = run(&["serve", &rules, "--admin", "127.0.0.1:0", "--admin-token-file", &short]);
    assert!(code == 2 && error.contains("the token has 15 characters"), "{code} {error}");
    assert!(!error.contains("fifteen-letters"), "{error}");
    let token = folder.write("token", "sixteen-letters-\n");
    let service =
        Service::start("limits.toml", RULES, &["--admin", "127.0.0.1:0", "--admin-token-file", &token]);
    assert!(service.page("admin", "/v1/policies").starts_with("HTTP/1.1 401"));
    let url = format!("http://{}", service.started["admin"].as_str().unwrap());
    let (code, out, error) = run(&["admin", &url, "policies", "--token-file", &token]);
    assert!(code == 0 && out.contains("all"), "{out}{error}");
}
