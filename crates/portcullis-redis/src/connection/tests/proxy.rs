//! What stands between a client and a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Passes all on but for what it is told to harm.
#[derive(Clone, Default)]
pub(super) struct Proxy {
    /// While it is set, requests are passed on, and the connection is closed instead of the reply.
    pub(super) cuts_replies: Arc<AtomicBool>,
    /// While it is set, `SCRIPT LOAD` is kept back.
    pub(super) keeps_loads: Arc<AtomicBool>,
    /// How many replies were cut.
    pub(super) cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// Returns the port to connect to instead of the server's.
    pub(super) async fn listen(&self, server: u16) -> u16 {
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
                let _ = to_client.write_all(&bytes[..read]).await;
            }
        };
        tokio::select! { () = requests => {}, () = replies => {} }
    }
}
