//! A real nginx that asks the check endpoint by `auth_request`.

use std::net::SocketAddr;

use axum::http::Method;

use crate::check_forgeries::forgeries_change_nothing;
use crate::checks::{
    BUDGET, Checked, Client, charges_keys_by_header_and_address, counts_raw_queries, fails_closed_and_open,
    figures, keeps_connections, limits_with_figures, with,
};
use crate::process::{Proxy, free_address};
use crate::web_pages::requests_across_origins_are_checked;

const FILE: &str = include_str!("../../examples/proxies/nginx-check.conf");

fn start(endpoint: SocketAddr, app: SocketAddr, is_open: bool) -> (Proxy, SocketAddr) {
    let address = free_address();
    let (listen, endpoint, app) = (format!("listen {address};"), endpoint.to_string(), app.to_string());
    let mut replaced =
        vec![("listen 80;", listen.as_str()), ("127.0.0.1:8080", &endpoint), ("10.0.0.20:3000", &app)];
    if is_open {
        replaced.push(("#open ", ""));
    }
    (Proxy::nginx(&with(FILE, &replaced), address), address)
}

#[tokio::test]
async fn nginx_checks_requests_across_origins() {
    requests_across_origins_are_checked(start).await;
}

#[tokio::test]
async fn nginx_limits_and_shows_the_figures() {
    limits_with_figures(start).await;
}

#[tokio::test]
async fn nginx_forwards_what_keys_and_rules_read() {
    charges_keys_by_header_and_address(start).await;
}

#[tokio::test]
async fn clients_cannot_forge_what_nginx_forwards() {
    forgeries_change_nothing(start, true).await;
}

#[tokio::test]
async fn nginx_counts_raw_queries() {
    counts_raw_queries(start).await;
}

#[tokio::test]
async fn nginx_keeps_connections() {
    keeps_connections(start, true).await;
}

#[tokio::test]
async fn nginx_fails_closed_or_open_as_configured() {
    fails_closed_and_open(start, &[500]).await;
}

#[tokio::test]
async fn clients_cannot_ask_through_nginx() {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let client = Client::new("127.0.0.2", address);
    assert_eq!(figures(&client.get("/.check").await), (404, None, None));
    assert_eq!(checked.remaining("127.0.0.2").await, BUDGET);
    // A check that cannot be made of what a client sends is 400 for the client, and charges no key.
    let response = client.send(Method::GET, "/a%5E", &[], "").await;
    assert_eq!(figures(&response), (200, Some(BUDGET), Some(BUDGET - 1)));
    let answer = crate::app::send_target("127.0.0.2", address, b"/a<b", &[]).await;
    assert_eq!(answer, crate::app::Answer::Proxy(400));
    assert_eq!(checked.remaining("127.0.0.2").await, BUDGET - 1);
}
