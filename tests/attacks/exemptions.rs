//! Requests that claim to be exempt in what the client sends.

use std::net::{Ipv4Addr, SocketAddr};

use axum::http::request::Parts;
use axum::{Router, routing::get};
use portcullis::key::{Identity, KeyExtractor as _, KeyWriter};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _};
use portcullis_servers::within_a_minute;
use portcullis_tests::per_half_century;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An extractor that uses only what authentication has established.
#[derive(Clone)]
struct Tenant {
    id: u64,
    is_our_monitoring: bool,
}

async fn serve() -> SocketAddr {
    let tenant = |parts: &Parts, key: &mut KeyWriter<'_>| {
        let Some(tenant) = parts.extensions.get::<Tenant>() else { return Ok(Identity::Missing) };
        if tenant.is_our_monitoring {
            return Ok(Identity::Exempt);
        }
        key.part("tenant", &tenant.id.to_be_bytes());
        Ok(Identity::Found)
    };
    let policy = Policy::fixed_window("api", per_half_century(10));
    let limit = Limiter::memory().layer(policy.by(tenant.or(ClientIp::peer())));
    let app = Router::new().route("/", get(async || "")).layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

#[tokio::test]
async fn a_host_chosen_by_the_client_exempts_no_request() {
    let address = serve().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET http://status.example.com/ HTTP/1.1\r\nhost: status.example.com\r\n\
                   x-tenant: monitoring\r\nx-forwarded-host: status.example.com\r\n";
    let last = format!("{request}connection: close\r\n\r\n");
    let requests = format!("{request}\r\n").repeat(49) + &last;
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut answers = String::new();
    within_a_minute("end of the responses", stream.read_to_string(&mut answers)).await.unwrap();
    let (passed, limited) =
        (answers.matches("HTTP/1.1 200").count(), answers.matches("HTTP/1.1 429").count());
    assert_eq!((passed, limited), (10, 40));
}
