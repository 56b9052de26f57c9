//! Elements of forwarding headers that are not the address of a client.

use std::net::{Ipv4Addr, SocketAddr};

use axum::http::Request;
use axum::{Router, routing::get};
use portcullis::key::Trust;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _};
use portcullis_tests::{HttpClient, per_half_century};
use tokio::net::TcpListener;

/// Starts a server that trusts the test as a proxy. Returns its URL.
async fn serve(clients: ClientIp) -> String {
    let limit = Limiter::memory().layer(Policy::fixed_window("all", per_half_century(1)).by(clients));
    let app = Router::new().route("/", get(async || "")).layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

async fn status(url: &str, header: &str, value: &str) -> u16 {
    let request = Request::get(url).header(header, value);
    HttpClient::http_1().send(request, ()).await.status().as_u16()
}

fn trusted_proxies() -> portcullis::key::ProxiesWithoutHeader {
    ClientIp::behind(Trust::networks(["127.0.0.0/8", "10.0.0.0/8"]))
}

#[tokio::test]
async fn the_unspecified_address_is_malformed() {
    let listed = serve(trusted_proxies().x_forwarded_for()).await;
    let single = serve(trusted_proxies().header("x-real-ip")).await;
    for address in ["0.0.0.0", "::", "0.0.0.0:80", "[::]:80", "::ffff:0.0.0.0", "0:0:0:0:0:ffff:0:0"] {
        assert_eq!(status(&listed, "x-forwarded-for", address).await, 400, "{address}");
        let written_by_a_proxy = format!("192.0.2.1, {address}, 10.0.0.7");
        assert_eq!(status(&listed, "x-forwarded-for", &written_by_a_proxy).await, 400, "{address}");
        assert_eq!(status(&single, "x-real-ip", address).await, 400, "{address}");
    }
    let standard = serve(trusted_proxies().forwarded()).await;
    for node in ["for=0.0.0.0", r#"for="[::]""#, r#"for="[::ffff:0.0.0.0]:80""#] {
        assert_eq!(status(&standard, "forwarded", &format!("for=192.0.2.1, {node}")).await, 400, "{node}");
    }
    // Elements to the left of the client's are ignored.
    assert_eq!(status(&listed, "x-forwarded-for", "0.0.0.0, 192.0.2.9").await, 200);
}

#[tokio::test]
async fn an_empty_element_does_not_make_a_forged_address_the_client() {
    let listed = serve(trusted_proxies().x_forwarded_for()).await;
    let standard = serve(trusted_proxies().forwarded()).await;
    for forged in 1..=20 {
        let gap = format!("192.0.2.{forged}, , 10.0.0.7");
        assert_eq!(status(&listed, "x-forwarded-for", &gap).await, 400);
        let gap = format!("for=192.0.2.{forged}, , for=10.0.0.7");
        assert_eq!(status(&standard, "forwarded", &gap).await, 400);
    }
}
