//! A real HAProxy that asks the check endpoint by a Lua script.

use std::net::SocketAddr;

use axum::http::Method;

use crate::check_forgeries::forgeries_change_nothing;
use crate::checks::{
    BUDGET, Checked, Client, charges_keys_by_header_and_address, counts_raw_queries, fails_closed_and_open,
    keeps_connections, limits_with_figures, with,
};
use crate::process::{Proxy, directory, free_address};
use crate::web_pages::requests_across_origins_are_checked;

const FILE: &str = include_str!("../../examples/proxies/haproxy-check.cfg");
const SCRIPT: &str = include_str!("../../examples/proxies/haproxy-check.lua");

/// The line without which requests pass while the endpoint does not answer.
const CLOSED: &str = "    http-request return status 503 content-type text/plain string \"try again later\" \
                      unless { var(txn.check_status) -m found }\n";

fn start(endpoint: SocketAddr, app: SocketAddr, is_open: bool) -> (Proxy, SocketAddr) {
    let (address, checks) = (free_address(), free_address().to_string());
    let (bind, endpoint, app) = (format!("bind {address}"), endpoint.to_string(), app.to_string());
    let scripts = format!("{}/", directory(address).display());
    let mut replaced = vec![
        ("bind :80", bind.as_str()),
        ("127.0.0.1:8080", &endpoint),
        ("127.0.0.1:8079", &checks),
        ("10.0.0.20:3000", &app),
        ("/etc/haproxy/", &scripts),
    ];
    if is_open {
        replaced.push((CLOSED, ""));
    }
    let files = [
        ("haproxy-check.cfg", &*with(FILE, &replaced)),
        ("haproxy-check.lua", &*with(SCRIPT, &[("127.0.0.1:8079", &checks)])),
    ];
    (Proxy::haproxy_files(&files, address), address)
}

#[tokio::test]
async fn haproxy_checks_requests_across_origins() {
    requests_across_origins_are_checked(start).await;
}

#[tokio::test]
async fn haproxy_limits_and_shows_the_figures() {
    limits_with_figures(start).await;
}

#[tokio::test]
async fn haproxy_forwards_what_keys_and_rules_read() {
    charges_keys_by_header_and_address(start).await;
}

#[tokio::test]
async fn clients_cannot_forge_what_haproxy_forwards() {
    forgeries_change_nothing(start, false).await;
}

#[tokio::test]
async fn haproxy_counts_raw_queries() {
    counts_raw_queries(start).await;
}

#[tokio::test]
async fn haproxy_keeps_connections() {
    keeps_connections(start, false).await;
}

#[tokio::test]
async fn haproxy_fails_closed_or_open_as_configured() {
    fails_closed_and_open(start, &[503]).await;
}

/// The rules see the host that the application sees, and not a part of it.
#[tokio::test]
async fn haproxy_forwards_the_whole_host() {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let client = Client::new("127.0.0.2", address);
    for (host, status) in [("localhost", 400), ("other.example,localhost", 200)] {
        let response = client.send(Method::POST, "/keyed", &[("host", host)], "").await;
        assert_eq!(response.status(), status, "{host}");
    }
}

/// Headers for which a check has no room do not pass unchecked.
#[tokio::test]
async fn large_headers_do_not_pass_haproxy_unchecked() {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, true);
    let names: Vec<_> = (0..110).map(|index| format!("x-{index}")).collect();
    for (lines, size) in
        [(1, 7_000), (1, 8_500), (1, 12_000), (1, 15_500), (75, 1), (85, 1), (95, 1), (90, 130)]
    {
        let value = "a".repeat(size);
        let headers: Vec<_> = names.iter().take(lines).map(|name| (name.as_str(), value.as_str())).collect();
        let status = Client::new("127.0.0.2", address).send(Method::GET, "/", &headers, "").await.status();
        let fits = lines < 80 && lines * size < 8_000;
        assert!(if fits { status == 200 } else { status == 431 || status == 400 }, "{lines} {size} {status}");
    }
    assert_eq!((checked.served(), checked.remaining("127.0.0.2").await), (2, BUDGET - 2));
}
