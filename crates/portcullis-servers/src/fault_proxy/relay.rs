//! The connections of a proxy, and the bytes in both directions.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use self::Direction::{Replies, Requests};
use super::{Fault, Settings};

/// Serves connections until the sender of `closes` is dropped.
pub(super) async fn serve(listener: TcpListener, settings: Arc<Settings>, mut closes: watch::Receiver<u64>) {
    let accepting = accept(listener, settings, closes.clone());
    let proxy_is_dropped = async { while closes.changed().await.is_ok() {} };
    tokio::select! { () = accepting => {}, () = proxy_is_dropped => {} }
}

async fn accept(listener: TcpListener, settings: Arc<Settings>, closes: watch::Receiver<u64>) {
    let mut accepted = 0;
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (settings, mut closes) = (Arc::clone(&settings), closes.clone());
        closes.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                _ = closes.changed() => {}
                _ = relay(client, accepted, &settings) => {}
            }
        });
        accepted += 1;
    }
}

/// Forwards a connection until one side or the fault closes it. `index` is the number of connections accepted before it.
async fn relay(mut client: TcpStream, index: usize, settings: &Settings) -> io::Result<()> {
    match settings.fault() {
        Fault::Refuse => return Ok(()),
        Fault::Discard => {
            let mut bytes = [0; 4_096];
            while settings.fault() == Fault::Discard && client.read(&mut bytes).await? > 0 {}
            return Ok(());
        }
        _ => {}
    }
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, settings.target.load(Ordering::SeqCst))).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        end = forward(Requests, from_client, to_server, settings) => end,
        end = forward(Replies(index), from_server, to_client, settings) => end,
    }
}

/// Whether requests contain a command.
fn has(requests: &[u8], command: &str) -> bool {
    let word = format!("${}\r\n{command}\r\n", command.len());
    requests.windows(word.len()).any(|bytes| bytes == word.as_bytes())
}

/// The way of the bytes that are forwarded.
#[derive(Clone, Copy)]
enum Direction {
    Requests,
    /// With the number of connections that were accepted before this one.
    Replies(usize),
}

async fn forward(
    direction: Direction,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    settings: &Settings,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut discarded = false;
    loop {
        let count = from.read(&mut buffer).await?;
        let (bytes, fault) = (&buffer[..count], settings.fault());
        if is_at_end(bytes, discarded, fault) {
            return Ok(());
        }
        match (direction, fault) {
            (_, Fault::Discard) => discarded = true,
            (_, Fault::Fragment) => write_fragments(bytes, &mut to).await?,
            (Requests, Fault::CutRequest) => return to.write_all(&bytes[..count / 2]).await,
            (Requests, Fault::CutReplyTo(command)) if has(bytes, command) => {
                settings.set_fault(Fault::CutReply);
                to.write_all(bytes).await?;
            }
            (Requests, Fault::DiscardFromLoad) if bytes.windows(4).any(|word| word == b"LOAD") => {
                settings.set_fault(Fault::Discard);
                discarded = true;
            }
            (Replies(_), Fault::CutReply) => {
                settings.cut_replies.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            (Replies(_), Fault::Delay(wait)) => {
                sleep(wait).await;
                to.write_all(bytes).await?;
            }
            (Replies(_), Fault::Pace(_)) => write_paced(bytes, &mut to, settings).await?,
            (Replies(connection), Fault::MuteFirst(connections)) if connection < connections => {}
            _ => to.write_all(bytes).await?,
        }
    }
}

/// Whether the connection ends with these bytes. After discarded bytes, the rest of the stream is invalid.
fn is_at_end(bytes: &[u8], discarded: bool, fault: Fault) -> bool {
    bytes.is_empty() || fault == Fault::Refuse || (discarded && fault != Fault::Discard)
}

/// Follows every change of the pace, and writes the rest at once when another fault is set.
async fn write_paced(mut bytes: &[u8], to: &mut OwnedWriteHalf, settings: &Settings) -> io::Result<()> {
    while let Fault::Pace(pace) = settings.fault()
        && !bytes.is_empty()
    {
        let (piece, rest) = bytes.split_at(pace.clamp(1, bytes.len()));
        to.write_all(piece).await?;
        bytes = rest;
        sleep(PACE_INTERVAL).await;
    }
    to.write_all(bytes).await
}

async fn write_fragments(bytes: &[u8], to: &mut OwnedWriteHalf) -> io::Result<()> {
    for (index, fragment) in bytes.chunks(1 + bytes.len() % 7).enumerate() {
        to.write_all(fragment).await?;
        yield_now().await;
        if index % 32 == 31 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}

const BUFFER_BYTES: usize = 16 * 1_024;
const PACE_INTERVAL: Duration = Duration::from_millis(10);
