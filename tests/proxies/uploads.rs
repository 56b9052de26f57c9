//! A real HAProxy that sends the requests of all clients over the same connections of HTTP/2. A server that resets the streams
//! of rejected uploads would end these connections, and the requests of others with them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::routing::any;
use portcullis::key::{ClientIp, Trust};
use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::process::{Proxy, free_address};

/// An Axum server that admits a request per client. Returns its address.
async fn start() -> SocketAddr {
    let policy = Policy::fixed_window("requests", Quota::per_week(1));
    let clients = ClientIp::behind(Trust::networks(["127.0.0.1"])).x_forwarded_for();
    let limits = Limiter::memory().layer(policy.by(clients));
    let app = Router::new().route("/", any(async |body: Bytes| drop(body))).layer(limits);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    address
}

/// Sends a request with a body of as many bytes, and returns the status, or `None` if the connection ends without one.
async fn status(from: Ipv4Addr, proxy: SocketAddr, bytes: usize) -> Option<String> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut client = socket.connect(proxy).await.unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n");
    // The proxy may close the connection once it has answered.
    let _ = client.write_all(&[head.as_bytes(), &vec![b'x'; bytes]].concat()).await;
    let mut answer = Vec::new();
    let _ = within_a_minute("end of the response", client.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap().split(' ').nth(1).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_behind_haproxy_end_nobody_else() {
    let (address, behind) = (free_address(), start().await);
    // Its connections are those of a thread, so one thread has the fewest.
    let sections = format!(
        "global\n    nbthread 1\n\nfrontend web\n    mode http\n    bind {address}\n    default_backend app\n\n\
         backend app\n    mode http\n    option forwardfor\n    http-reuse always\n    server app {behind} proto h2\n"
    );
    let _haproxy = Proxy::haproxy(&sections, address);
    let (is_over, rejected) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut uploads = JoinSet::new();
    for _ in 0..20 {
        let (is_over, rejected) = (Arc::clone(&is_over), Arc::clone(&rejected));
        uploads.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let status = status(Ipv4Addr::new(127, 1, 0, 1), address, 100_000).await;
                rejected.fetch_add(u32::from(status.as_deref() == Some("429")), Ordering::Relaxed);
            }
        });
    }
    for client in 1..=40 {
        // Some connections have answered many rejected uploads by then.
        let enough = client * 250;
        let busy = async {
            while rejected.load(Ordering::Relaxed) < enough {
                tokio::task::yield_now().await;
            }
        };
        within_a_minute("rejected uploads", busy).await;
        let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 2, 0, 0).to_bits() + client);
        assert_eq!(status(from, address, 2).await.as_deref(), Some("200"), "client {client}");
    }
    is_over.store(true, Ordering::Relaxed);
    within_a_minute("end of the uploads", uploads.join_all()).await;
}
