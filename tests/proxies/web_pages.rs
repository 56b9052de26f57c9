//! Requests that a page of another site makes by the browser of a client. Behind a proxy they are the client's, and checked like others.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::Method;
use axum::routing::any;
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_server::{CheckEndpoint, Server};

use crate::checks::{Client, Start, figures};

const RULES: &str = "[policy.all]\nstrategy = 'fixed_window'\nquota = '2/18250d'\nkey = 'client_ip'\n";
const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// The listener of `portcullis serve` on the loopback answers the checks of a proxy about a request across origins.
pub(crate) async fn requests_across_origins_are_checked(start: Start) {
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, RULES)).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    let checks = CheckEndpoint::new(&limiter).unwrap().router();
    let server = Server::new(limiter).http(LOOPBACK.into(), checks).bind().await.unwrap();
    let endpoint = server.addresses().http.unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let app = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
    let address: SocketAddr = app.local_addr().unwrap();
    tokio::spawn(axum::serve(app, Router::new().fallback(any(async || "application"))).into_future());
    let (_proxy, address) = start(endpoint, address, false);
    let client = Client::new("127.0.0.2", address);
    let of_page = [
        ("host", "shop.example"),
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("content-type", "text/plain"),
    ];
    for expected in [(200, Some(2), Some(1)), (200, Some(2), Some(0)), (429, Some(2), Some(0))] {
        let response = client.send(Method::POST, "/orders", &of_page, "order").await;
        assert_eq!(figures(&response), expected, "{response:?}");
    }
}
