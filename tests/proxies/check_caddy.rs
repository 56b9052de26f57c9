//! A real Caddy that asks the check endpoint as `forward_auth` does.

use std::net::SocketAddr;

use crate::check_forgeries::forgeries_change_nothing;
use crate::checks::{
    charges_keys_by_header_and_address, fails_closed_and_open, keeps_connections, limits_with_figures, with,
};
use crate::process::{Proxy, free_address};
use crate::web_pages::requests_across_origins_are_checked;

const FILE: &str = include_str!("../../examples/proxies/Caddyfile");

fn start(endpoint: SocketAddr, app: SocketAddr, is_open: bool) -> (Proxy, SocketAddr) {
    let address = free_address();
    let (site, endpoint, app) =
        (format!("http://:{} {{\n\tbind 127.0.0.1\n", address.port()), endpoint.to_string(), app.to_string());
    let mut replaced = vec![
        ("http://example.com {\n", site.as_str()),
        ("127.0.0.1:8080", &endpoint),
        ("10.0.0.20:3000", &app),
    ];
    if is_open {
        replaced.push(("#open ", ""));
    }
    (Proxy::caddy(&with(FILE, &replaced), address), address)
}

#[tokio::test]
async fn caddy_checks_requests_across_origins() {
    requests_across_origins_are_checked(start).await;
}

#[tokio::test]
async fn caddy_limits_and_shows_the_figures() {
    limits_with_figures(start).await;
}

#[tokio::test]
async fn caddy_forwards_what_keys_and_rules_read() {
    charges_keys_by_header_and_address(start).await;
}

#[tokio::test]
async fn clients_cannot_forge_what_caddy_forwards() {
    forgeries_change_nothing(start, false).await;
}

#[tokio::test]
async fn caddy_keeps_connections() {
    keeps_connections(start, true).await;
}

#[tokio::test]
async fn caddy_fails_closed_or_open_as_configured() {
    fails_closed_and_open(start, &[502, 504]).await;
}
