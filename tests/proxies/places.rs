//! A real HAProxy and a real Envoy in front of the reverse proxy, with as many clients as it has places.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_proxy::{ReverseProxy, Upstream};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::process::{Proxy, free_address};

/// The clients, and the places of connections and requests.
const CLIENTS: u32 = 1_000;

/// Two requests for each client. The window ends in 2069, and so in no test.
const RULES: &str = r#"
[client_ip]
header = "x-forwarded-for"
trusted_proxies = ["127.0.0.1"]

[policy.clients]
strategy = "fixed_window"
quota = "2/18250d"
key = "client_ip"
"#;

/// Starts the reverse proxy in front of an application that answers once it has the requests of all clients. Returns its address.
async fn start() -> SocketAddr {
    let all = Arc::new(Barrier::new(CLIENTS.try_into().unwrap()));
    let app = Router::new().route(
        "/",
        get(async move || {
            all.wait().await;
        }),
    );
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstream = Upstream::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, RULES)).unwrap();
    let proxy = ReverseProxy::new(&Limiter::memory().with_rules(rules).unwrap(), upstream).unwrap();
    let proxy = proxy.max_connections(CLIENTS).max_requests(CLIENTS);
    let bound = proxy.bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.serve(pending()));
    address
}

/// An address of the loopback that is none of a proxy.
fn address(client: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + client)
}

/// A request whose connection stays.
async fn status(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(client.read_buf(&mut head).await.unwrap(), 0, "{}", head.escape_ascii());
    }
    String::from_utf8(head).unwrap().lines().next().unwrap().to_owned()
}

/// All clients have a request with the application at the same time, twice: none is refused, and no connection was closed in between.
async fn all_places_are_used(proxy: SocketAddr) {
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address(client), 0).into()).unwrap();
        clients.push(socket.connect(proxy).await.unwrap());
    }
    for _ in 0..2 {
        let mut asked = JoinSet::new();
        for mut client in clients.drain(..) {
            asked.spawn(async move { (status(&mut client).await, client) });
        }
        for (status, client) in within_a_minute("all answers", asked.join_all()).await {
            assert_eq!(status, "HTTP/1.1 200 OK");
            clients.push(client);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_behind_one_haproxy_use_all_places() {
    let (address, behind) = (free_address(), start().await);
    let sections = format!(
        "frontend web\n    mode http\n    bind {address}\n    maxconn 4000\n    timeout client 60s\n    default_backend app\n\n\
         backend app\n    mode http\n    option forwardfor\n    timeout server 60s\n    server app {behind}\n"
    );
    let _haproxy = Proxy::haproxy(&sections, address);
    all_places_are_used(address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_behind_one_envoy_use_all_places() {
    // Over HTTP/1.1 a connection for each request, over HTTP/2 a few for all. Without the number, Envoy assigns all requests to the first
    // connection before it knows how many that takes.
    for protocol in ["http_protocol_options: {}", "http2_protocol_options: { max_concurrent_streams: 100 }"] {
        let (address, behind) = (free_address(), start().await);
        let configuration = ENVOY
            .replace("LISTENING", &address.port().to_string())
            .replace("BEHIND", &behind.port().to_string())
            .replace("PROTOCOL", protocol);
        let _envoy = Proxy::envoy(&configuration, address);
        all_places_are_used(address).await;
    }
}

const ENVOY: &str = r#"
static_resources:
  listeners:
    - name: ingress
      address: { socket_address: { address: 127.0.0.1, port_value: LISTENING } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: ingress
                use_remote_address: true
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: { prefix: / }
                          route: { cluster: portcullis, timeout: 0s }
  clusters:
    - name: portcullis
      connect_timeout: 60s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: { PROTOCOL }
      load_assignment:
        cluster_name: portcullis
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: BEHIND } } }
"#;
