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

const PAGE: &str = include_str!("../../docs/how-to/gateway/nginx.md");

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

/// With the locations of the page. Without PHP-FPM, nginx answers 502 after the check, with the figures.
#[tokio::test]
async fn nginx_checks_php_once() {
    let (before, rest) = FILE.split_once("    location / {\n").unwrap();
    let (checks, rest) = rest.split_once("        proxy_pass").unwrap();
    let (_, after) = rest.split_once("    }\n").unwrap();
    let (_, php) = PAGE.split_once("## PHP\n").unwrap();
    let (php, _) = php.split_once("```nginx\n").unwrap().1.split_once("```").unwrap();
    let checked = Checked::start().await;
    let address = free_address();
    let replaced = [
        ("listen 80;", &*format!("listen {address};")),
        ("127.0.0.1:8080", &checked.endpoint.to_string()),
        ("    # the lines from auth_request to error_page\n", checks),
        ("include fastcgi_params;", ""),
        ("unix:/run/php/php-fpm.sock", "127.0.0.1:1"),
    ];
    let _proxy = Proxy::nginx(&with(&format!("{before}{php}{after}"), &replaced), address);
    let client = Client::new("127.0.0.2", address);
    for remaining in (0..BUDGET).rev() {
        let path = ["/page", "/other.php"][usize::from(remaining % 2 == 0)];
        assert_eq!(figures(&client.get(path).await), (502, Some(BUDGET), Some(remaining)), "{path}");
        assert_eq!(checked.remaining("127.0.0.2").await, remaining);
    }
    assert_eq!(figures(&client.get("/page").await), (429, Some(BUDGET), Some(0)));
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
