//! A TCP proxy between the workers and a server, which injects faults of the network.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

/// A TCP proxy with a mode that can change at any time.
pub(crate) struct Proxy {
    port: u16,
    settings: Arc<Settings>,
    /// The number of times that all connections were closed. A change closes the open ones.
    closes: watch::Sender<u64>,
    _runtime: Runtime,
}

#[derive(Debug)]
struct Settings(Mutex<(Mode, SocketAddr)>);

/// The treatment of bytes and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Bytes are forwarded.
    Forward,
    /// Replies are delayed.
    Delay(Duration),
    /// Requests are forwarded; the reply closes the connection instead.
    CutReply,
    /// Half of a request is forwarded, then the connection is closed.
    CutRequest,
    /// Bytes are read and discarded.
    Discard,
    /// Bytes are forwarded a few at a time.
    Fragment,
    /// Connections are closed as soon as they are accepted.
    Refuse,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine.
    pub(crate) fn start(target: u16) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let settings = Arc::new(Settings(Mutex::new((Mode::Forward, local(target)))));
        let (closes, close) = watch::channel(0);
        runtime.spawn(serve(listener, Arc::clone(&settings), close));
        Ok(Self { port, settings, closes, _runtime: runtime })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets the mode for all connections.
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.settings.change(|settings| settings.0 = mode);
    }

    /// Sets the port to which new connections are forwarded.
    pub(crate) fn set_target(&self, target: u16) {
        self.settings.change(|settings| settings.1 = local(target));
    }

    /// Closes all connections.
    pub(crate) fn close_connections(&self) {
        self.closes.send_modify(|closes| *closes += 1);
    }
}

impl Settings {
    fn current(&self) -> (Mode, SocketAddr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut (Mode, SocketAddr))) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

async fn serve(listener: TcpListener, settings: Arc<Settings>, close: watch::Receiver<u64>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (settings, mut close) = (Arc::clone(&settings), close.clone());
        close.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                _ = close.changed() => {}
                _ = handle(client, &settings) => {}
            }
        });
    }
}

/// Forwards a connection until one side or the mode closes it.
async fn handle(mut client: TcpStream, settings: &Settings) -> std::io::Result<()> {
    let (mode, target) = settings.current();
    match mode {
        Mode::Refuse => return Ok(()),
        Mode::Discard => {
            let mut bytes = [0; 4096];
            while settings.current().0 == Mode::Discard && client.read(&mut bytes).await? > 0 {}
            return Ok(());
        }
        _ => {}
    }
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        end = forward(from_client, to_server, settings, false) => end,
        end = forward(from_server, to_client, settings, true) => end,
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    settings: &Settings,
    replies: bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut discarded = false;
    loop {
        let count = from.read(&mut buffer).await?;
        let bytes = &buffer[..count];
        let mode = settings.current().0;
        // After discarded bytes, the rest of the stream is invalid.
        if count == 0 || (discarded && mode != Mode::Discard) {
            return Ok(());
        }
        match mode {
            Mode::Discard => discarded = true,
            Mode::CutReply if replies => return Ok(()),
            Mode::CutRequest if !replies => {
                to.write_all(&bytes[..count / 2]).await?;
                return Ok(());
            }
            Mode::Delay(wait) if replies => {
                sleep(wait).await;
                to.write_all(bytes).await?;
            }
            Mode::Fragment => {
                for (index, slice) in bytes.chunks(1 + count % 7).enumerate() {
                    to.write_all(slice).await?;
                    yield_now().await;
                    if index % 32 == 31 {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
            Mode::Refuse => return Ok(()),
            _ => to.write_all(bytes).await?,
        }
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
