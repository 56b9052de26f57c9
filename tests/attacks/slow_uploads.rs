//! Uploads that are begun and not finished, in front of which a layer sheds load.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use portcullis::rules::{Format, Loader, Rules};
use portcullis::shed::ShedLayer;
use portcullis::{BodyRate, ClientIp, Limiter};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::raw::{connect, exchange, serve, status};

/// A service with uploads, whose limit is 20: 16 places for what is not critical.
async fn service(shed: &ShedLayer) -> SocketAddr {
    let app = Router::new()
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .route("/", get(async || "found"))
        .layer(shed.clone());
    serve(app).await
}

/// Begins as many uploads from 127.0.0.1, each of which takes a place.
async fn begin_uploads(shed: &ShedLayer, address: SocketAddr, number: usize) -> Vec<TcpStream> {
    let mut uploads = Vec::new();
    for begun in 1..=number {
        let mut upload = connect(1, address).await;
        let head = "POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nx";
        upload.write_all(head.as_bytes()).await.unwrap();
        uploads.push(upload);
        let entered = async {
            while shed.in_flight() < begun {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within_a_minute("an upload in flight", entered).await;
    }
    uploads
}

async fn request(host: u8, address: SocketAddr) -> u16 {
    status(&exchange(host, address, &crate::raw::get("")).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_give_their_places_back() {
    let shed = Limiter::memory().shed(20..=20).body_rate(BodyRate::new(200, Duration::from_secs(5)));
    let address = service(&shed).await;
    for mut upload in begin_uploads(&shed, address, 16).await {
        let mut answer = String::new();
        within_a_minute("the end of an upload", upload.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(status(&answer), 400, "{answer}");
        assert!(answer.contains("less than 200 bytes in 5s"), "{answer}");
    }
    assert_eq!(request(2, address).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_one_address_leave_places_to_others() {
    let layer = |limiter: Limiter| limiter.shed(20..=1_000).body_rate(None);
    others_are_served(layer(Limiter::memory()).share_per(ClientIp::peer())).await;

    // Files that say where addresses come from share the places.
    let with_rules = |table: &str| {
        let rules = format!("{table}\n{POLICY}");
        let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, rules)).unwrap();
        layer(Limiter::memory().with_rules(rules).unwrap())
    };
    others_are_served(with_rules("[client_ip]")).await;

    // Without shares, the first request of another address is rejected.
    for unshared in
        [layer(Limiter::memory()), with_rules(""), with_rules("[client_ip]\nshare_places = false")]
    {
        let address = service(&unshared).await;
        let _uploads = begin_uploads(&unshared, address, 16).await;
        assert_eq!(request(2, address).await, 503);
    }
}

const POLICY: &str = r#"
[policy.all]
strategy = "gcra"
quota = "1000/s"
key = "client_ip"
"#;

/// With 16 unfinished uploads of an address, all requests of others are served, and none of its own.
async fn others_are_served(shared: ShedLayer) {
    let address = service(&shared).await;
    let uploads = begin_uploads(&shared, address, 16).await;
    assert_eq!(request(1, address).await, 503);
    for host in 2..30 {
        for _ in 0..10 {
            assert_eq!(request(host, address).await, 200, "{host}");
        }
    }
    assert!(shared.in_flight() >= uploads.len());
}
