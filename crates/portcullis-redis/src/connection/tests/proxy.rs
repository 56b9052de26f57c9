//! A proxy between a client and a server, which injects faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Forwards all bytes, except for the faults that are set.
#[derive(Clone, Default)]
pub(super) struct Proxy {
    /// While it is set, requests are forwarded, and the connection is closed instead of the reply.
    pub(super) cuts_replies: Arc<AtomicBool>,
    /// While it is set, `SCRIPT LOAD` is dropped.
    pub(super) keeps_loads: Arc<AtomicBool>,
    /// How many connections, from the first on, forward no replies.
    pub(super) mute: Arc<AtomicUsize>,
    /// How many bytes of replies are forwarded every 10 ms; all at once if it is 0.
    pub(super) pace: Arc<AtomicUsize>,
    /// How many replies were dropped.
    pub(super) cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// Returns the port to connect to instead of the server's.
    pub(super) async fn listen(&self, server: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = self.clone();
        tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().pass(client, server, connections));
                connections += 1;
            }
        });
        port
    }

    async fn pass(self, client: TcpStream, server: u16, connection: usize) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = async {
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
                let is_load = bytes[..read].windows(4).any(|word| word == b"LOAD");
                if !(is_load && self.keeps_loads.load(Ordering::SeqCst)) {
                    let _ = to_server.write_all(&bytes[..read]).await;
                }
            }
        };
        let replies = async {
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                if self.cuts_replies.load(Ordering::SeqCst) {
                    self.cuts.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if connection < self.mute.load(Ordering::SeqCst) {
                    continue;
                }
                let mut rest = &bytes[..read];
                while let pace @ 1.. = self.pace.load(Ordering::SeqCst).min(rest.len()) {
                    let _ = to_client.write_all(&rest[..pace]).await;
                    rest = &rest[pace..];
                    tokio::time::sleep(PACE).await;
                }
                let _ = to_client.write_all(rest).await;
            }
        };
        tokio::select! { () = requests => {}, () = replies => {} }
    }
}

const PACE: Duration = Duration::from_millis(10);
