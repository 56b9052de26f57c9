//! What stands between the processes and a server, and does as it is told.

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

/// A TCP proxy with moods.
pub(crate) struct Proxy {
    port: u16,
    road: Arc<Road>,
    /// Counts how often all connections were cut.
    cuts: watch::Sender<u64>,
    _runtime: Runtime,
}

#[derive(Debug)]
struct Road(Mutex<(Mood, SocketAddr)>);

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// They pass.
    Through,
    /// Replies come so much later.
    Late(Duration),
    /// The request passes; the reply closes the connection.
    CutReply,
    /// Half of the request passes, and the connection is closed.
    CutRequest,
    /// Everything is taken, and nothing comes of it.
    Swallow,
    /// They pass a few at a time.
    Slices,
    /// Connections are closed as soon as they are made.
    Refuse,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine.
    pub(crate) fn start(target: u16) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let road = Arc::new(Road(Mutex::new((Mood::Through, local(target)))));
        let (cuts, cut) = watch::channel(0);
        runtime.spawn(serve(listener, Arc::clone(&road), cut));
        Ok(Self { port, road, cuts, _runtime: runtime })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Treats bytes so from now on.
    pub(crate) fn turn(&self, mood: Mood) {
        self.road.change(|road| road.0 = mood);
    }

    /// Leads new connections elsewhere.
    pub(crate) fn lead_to(&self, target: u16) {
        self.road.change(|road| road.1 = local(target));
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Road {
    fn now(&self) -> (Mood, SocketAddr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut (Mood, SocketAddr))) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

async fn serve(listener: TcpListener, road: Arc<Road>, cut: watch::Receiver<u64>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (road, mut cut) = (Arc::clone(&road), cut.clone());
        cut.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                _ = cut.changed() => {}
                _ = connect(client, &road) => {}
            }
        });
    }
}

/// Until one side closes, or a mood does.
async fn connect(mut client: TcpStream, road: &Road) -> std::io::Result<()> {
    let (mood, target) = road.now();
    match mood {
        Mood::Refuse => return Ok(()),
        Mood::Swallow => {
            let mut bytes = [0; 4096];
            while road.now().0 == Mood::Swallow && client.read(&mut bytes).await? > 0 {}
            return Ok(());
        }
        _ => {}
    }
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        end = pump(from_client, to_server, road, false) => end,
        end = pump(from_server, to_client, road, true) => end,
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    road: &Road,
    replies: bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut swallowed = false;
    loop {
        let count = from.read(&mut buffer).await?;
        let bytes = &buffer[..count];
        let mood = road.now().0;
        // What comes after a gap means nothing.
        if count == 0 || (swallowed && mood != Mood::Swallow) {
            return Ok(());
        }
        match mood {
            Mood::Swallow => swallowed = true,
            Mood::CutReply if replies => return Ok(()),
            Mood::CutRequest if !replies => {
                to.write_all(&bytes[..count / 2]).await?;
                return Ok(());
            }
            Mood::Late(wait) if replies => {
                sleep(wait).await;
                to.write_all(bytes).await?;
            }
            Mood::Slices => {
                for (index, slice) in bytes.chunks(1 + count % 7).enumerate() {
                    to.write_all(slice).await?;
                    yield_now().await;
                    if index % 32 == 31 {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
            Mood::Refuse => return Ok(()),
            _ => to.write_all(bytes).await?,
        }
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
