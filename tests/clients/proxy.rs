//! A page in Chromium and curl, through the reverse proxy.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;

use axum::Router;
use axum::extract::Request;
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_proxy::{ReverseProxy, Upstream};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::devtools::Browser;
use crate::server::{Server, output_of};

/// Starts a proxy in front of an upstream, with this many requests in a window that ends in 2069. Returns its address.
async fn proxy(upstream: &str, requests: u32) -> String {
    let text =
        format!("[policy.all]\nstrategy = 'fixed_window'\nquota = '{requests}/18250d'\nkey = 'client_ip'\n");
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, text)).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    let proxy = ReverseProxy::new(&limiter, Upstream::new(upstream).unwrap()).unwrap();
    let bound = proxy.bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let address = bound.local_addr().to_string();
    tokio::spawn(bound.serve(std::future::pending()));
    address
}

fn curl(arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    curl
}

#[tokio::test]
async fn curl_uploads_through_the_proxy() {
    let upstream = Server::start(Router::new().fallback(async |request: Request| request.into_body())).await;
    let url = format!("http://{}/", proxy(&format!("http://{}", upstream.address), 100).await);
    let file = std::env::temp_dir().join(format!("portcullis-upload-{}", std::process::id()));
    let sent = "0123456789abcdef".repeat(100_000);
    std::fs::write(&file, &sent).unwrap();
    let data = format!("@{}", file.display());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let whole = output_of(&mut curl(&[version, "--data-binary", &data, &url])).await;
        assert!(whole == sent, "{version}: {} bytes", whole.len());
        let chunked = ["--header", "transfer-encoding: chunked", "--header", "expect: 100-continue"];
        let chunked = if version == "--http1.1" { &chunked[..] } else { &chunked[2..] };
        let mut command = curl(&[version, "--data-binary", &data, &url]);
        let echoed = output_of(command.args(chunked)).await;
        assert!(echoed == sent, "{version}: {} bytes", echoed.len());
    }
    std::fs::remove_file(file).unwrap();
}

/// A server of web sockets of its own. It ends with its handle.
async fn web_sockets() -> (Child, String) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/scripts/web_sockets.py");
    let mut python = Command::new("python3");
    let mut process = python.arg(script).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    (process, format!("http://127.0.0.1:{}", line.trim()))
}

/// The page, its web socket and its requests are four requests of the client; the fifth is rejected.
#[tokio::test]
async fn a_page_opens_a_web_socket_and_fetches_through_the_proxy() {
    let (_process, upstream) = web_sockets().await;
    let address = proxy(&upstream, 4).await;
    let mut browser = Browser::start("proxy").await;
    browser.open(&format!("http://{address}/")).await;
    browser.wait_for("document.title === 'upstream'").await;
    let echoed = format!(
        "new Promise((done, failed) => {{
            const socket = new WebSocket('ws://{address}/socket');
            socket.onopen = () => socket.send('over the proxy');
            socket.onmessage = event => {{ socket.close(); done(event.data); }};
            socket.onerror = () => failed('no web socket');
        }})"
    );
    assert_eq!(browser.text(&echoed).await, "OVER THE PROXY");
    let fetched = "(async () => {
        const seen = [];
        for (let i = 0; i < 3; i++) seen.push((await fetch('/data')).status);
        return seen.join();
    })()";
    assert_eq!(browser.text(fetched).await, "200,200,429");
}
