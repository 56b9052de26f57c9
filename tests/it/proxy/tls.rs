//! TLS on both sides, with the protocol by ALPN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::Request;
use portcullis_proxy::{ProxyError, ReverseProxy, Upstream};
use portcullis_server::Tls;
use portcullis_tests::HttpClient;
use rustls::{ClientConfig, RootCertStore};

use super::start::{Proxy, echo, raw, read_head, start, start_to, text, unlimited, write};

/// A certificate of 127.0.0.1, in files, and a client that trusts it.
fn certificate() -> (Tls, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [certificate, key]: [PathBuf; 2] = ["proxy.crt", "proxy.key"].map(|name| {
        let count = std::process::id();
        directory.join(format!("{count}-{:?}-{name}", std::thread::current().id()))
    });
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (Tls::from_files(&certificate, &key, None).unwrap(), client)
}

/// A proxy without TLS, whose upstream is a proxy with TLS, whose upstream this is.
async fn both(upstream: &str) -> (Proxy, Proxy) {
    let (tls, client) = certificate();
    let inner = start(unlimited(), upstream, |proxy| proxy.tls(&tls)).await;
    let to = Upstream::new(&format!("https://{}", inner.addr)).unwrap().tls(&client);
    (start_to(unlimited(), to, |proxy| proxy).await, inner)
}

#[tokio::test]
async fn alpn_selects_http_2_and_the_scheme_is_forwarded() {
    let (outer, _inner) = both(&echo().await).await;
    let response = HttpClient::http_1().send(Request::get(format!("{outer}/x")), "body").await;
    let seen = text(response.body());
    assert!(seen.starts_with("GET /x HTTP/1.1\n") && seen.ends_with("\nbody"), "{seen}");
    assert!(seen.contains("x-forwarded-proto: https\n"), "{seen}");
    let passed: Vec<_> = seen.lines().filter(|line| line.starts_with("via: ")).collect();
    assert!(passed[0].starts_with("via: 1.1 ") && passed[1].starts_with("via: 2 "), "{passed:?}");
}

/// Over TLS a web socket has a connection of HTTP/1.1, whatever the other requests have.
#[tokio::test]
async fn a_web_socket_passes_tls() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        write(&mut stream, switch).await;
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
    })
    .await;
    let (outer, _inner) = both(&upstream).await;
    let mut client = tokio::net::TcpStream::connect(outer.addr).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    write(&mut client, head).await;
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 101 "));
    write(&mut client, "echo\r\n\r\n").await;
    assert_eq!(read_head(&mut client).await, "echo\r\n\r\n");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_a_bad_gateway() {
    let (tls, _) = certificate();
    let (_, other) = certificate();
    let inner = start(unlimited(), &echo().await, |proxy| proxy.tls(&tls)).await;
    let to = Upstream::new(&format!("https://{}", inner.addr)).unwrap().tls(&other);
    let outer = start_to(unlimited(), to, |proxy| proxy).await;
    assert_eq!(portcullis_tests::get(&format!("{outer}/")).await.status(), 502);
    let without = ReverseProxy::new(&unlimited(), Upstream::new("https://a.example").unwrap());
    assert_eq!(without.unwrap_err(), ProxyError::NoRoots);
}
