//! A server under the layer, and clients that send arbitrary headers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, routing::get};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

/// The number of requests that a client may send per day.
pub(crate) const BUDGET: u64 = 4;

/// An Axum server on the loopback that limits requests by address.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    limiter: Limiter,
    policy: Policy,
    served: Arc<AtomicU32>,
    server: JoinHandle<()>,
}

impl App {
    pub(crate) async fn behind(clients: ClientIp) -> Self {
        let limiter = Limiter::memory();
        let policy = Policy::gcra("all", Quota::per_day(BUDGET).burst(BUDGET));
        let served = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&served);
        let inner = get(async move || {
            count.fetch_add(1, Ordering::Relaxed);
            "inner"
        });
        let app = Router::new().route("/", inner).layer(limiter.layer(policy.clone().by(clients)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = tokio::spawn(async {
            axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
        });
        Self { address, limiter, policy, served, server: running }
    }

    /// The remaining budget of `address`, as the layer reports it.
    pub(crate) async fn remaining(&self, address: &str) -> u64 {
        let bucket = ClientIp::peer().prefix(address.parse().unwrap());
        let key = self.limiter.key(|key| bucket.write(key)).unwrap();
        self.limiter.peek(&self.policy, key).await.unwrap().remaining()
    }

    /// The number of requests that passed the layer.
    pub(crate) fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The status of a response, and whether it passed the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The response has the layer's headers.
    Layer(u16),
    /// The response is the proxy's own.
    Proxy(u16),
}

/// Sends a request with the given header lines from an address of the loopback.
pub(crate) async fn send_request(from: &str, proxy: SocketAddr, lines: &[Vec<u8>]) -> Answer {
    send_target(from, proxy, b"/", lines).await
}

/// Like [`send_request`], but for any target.
pub(crate) async fn send_target(from: &str, proxy: SocketAddr, target: &[u8], lines: &[Vec<u8>]) -> Answer {
    let from: IpAddr = from.parse().unwrap();
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    let mut stream = socket.connect(proxy).await.unwrap();
    let mut request = [b"GET ", target, b" HTTP/1.1\r\nHost: localhost\r\n"].concat();
    for line in lines {
        request.extend_from_slice(line);
        request.extend_from_slice(b"\r\n");
    }
    // A proxy may reject the request and close the connection before it has read everything.
    let closing = [request.as_slice(), b"Connection: close\r\n\r\n"].concat();
    let _ = stream.write_all(&closing).await;
    let mut answer = Vec::new();
    let _ = within_a_minute("end of the response", stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no response to {}", request.escape_ascii()));
    if answer.contains("\r\nx-ratelimit-limit: ") { Answer::Layer(status) } else { Answer::Proxy(status) }
}
