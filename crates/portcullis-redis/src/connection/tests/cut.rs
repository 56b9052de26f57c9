//! Replies that are cut after the request went through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::{CallError, Connection, Options, Script};

use super::scripts::{COUNT, count};
use super::server::Server;

/// Stands between a client and a server; while `cutting` it passes requests on, and closes instead of the reply.
#[derive(Clone, Default)]
struct Proxy {
    cutting: Arc<AtomicBool>,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    async fn listen(&self, server: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().pass(client, server));
            }
        });
        port
    }

    async fn pass(self, client: TcpStream, server: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = tokio::io::copy(&mut from_client, &mut to_server);
        let replies = async {
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                if self.cutting.load(Ordering::SeqCst) {
                    self.cuts.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                let _ = to_client.write_all(&bytes[..read]).await;
            }
        };
        tokio::select! { _ = requests => {}, () = replies => {} }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_is_cut_is_unknown_and_charged_exactly_once() {
    let server = Server::start(&[]);
    let proxy = Proxy::default();
    let port = proxy.listen(server.port).await;
    let options = Options::default().deadline(Duration::from_secs(2));
    let connection = Connection::open(&format!("redis://127.0.0.1:{port}"), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    for round in 1..=5 {
        proxy.cutting.store(true, Ordering::SeqCst);
        let error = count(&connection, &script, "k").await.unwrap_err();
        assert!(matches!(error, CallError::Lost(_)) && error.fate_unknown(), "{error}");
        proxy.cutting.store(false, Ordering::SeqCst);
        let started = Instant::now();
        while count(&connection, &script, "warm").await.is_err() {
            assert!(started.elapsed() < Duration::from_secs(5), "no recovery");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), round.to_string());
    }
    assert!(proxy.cuts.load(Ordering::SeqCst) >= 5);
}
