//! What happens on a connection, as its watchdog sees it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::places::Place;

/// The counters of a connection. Requests and the watchdog read and write them in different tasks, each without regard to the others.
#[derive(Debug)]
pub(super) struct Activity {
    version: AtomicU8,
    has_unparsed: AtomicBool,
    started: AtomicU64,
    in_flight: AtomicU32,
    /// The pieces of responses that the protocol has not written.
    unsent: AtomicU32,
    /// Whether the socket takes no more of what was written.
    is_blocked: AtomicBool,
    /// The bytes of responses that the client has taken.
    taken: AtomicU64,
    /// Microseconds since [`BEGUN`] at which a request last began, made progress or ended, or the connection was accepted.
    last: AtomicU64,
}

/// A protocol, as its first bytes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Unknown,
    Http1,
    Http2,
}

impl Default for Activity {
    fn default() -> Self {
        let (version, has_unparsed, started, in_flight) = Default::default();
        let (unsent, is_blocked, taken, last) =
            (AtomicU32::new(0), AtomicBool::new(false), 0.into(), now().into());
        Self { version, has_unparsed, started, in_flight, unsent, is_blocked, taken, last }
    }
}

impl Activity {
    pub(super) fn version(&self) -> Version {
        match self.version.load(Ordering::Relaxed) {
            0 => Version::Unknown,
            1 => Version::Http1,
            _ => Version::Http2,
        }
    }

    /// Whether bytes were read since the last request began or ended: the head of the next one, with HTTP/1.1.
    pub(super) fn has_unparsed(&self) -> bool {
        self.has_unparsed.load(Ordering::Relaxed)
    }

    /// The requests that have begun.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether it was accepted just now and has had no request, and so is about to send it.
    pub(super) fn is_new(&self) -> bool {
        let age = Duration::from_micros(now().saturating_sub(self.last()));
        self.started() == 0 && age < NEW
    }

    /// Whether a response is not complete, or not written.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0 || self.awaits_client()
    }

    /// Whether there is something that the client has to take.
    pub(super) fn awaits_client(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) > 0 || self.is_blocked.load(Ordering::Relaxed)
    }

    /// The bytes of responses that the client has taken. Nothing else counts, such as a ping or the update of a window.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// When a request last began, made progress or ended, which orders connections.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    pub(super) fn set_version(&self, version: Version) {
        self.version.store(version as u8, Ordering::Relaxed);
    }

    fn has_read(&self) {
        self.has_unparsed.store(true, Ordering::Relaxed);
    }

    fn has_taken(&self, bytes: usize) {
        self.taken.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.has_progress();
    }

    fn has_progress(&self) {
        self.last.store(now(), Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn last_for_test(&self, at: u64) {
        self.last.store(at, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn read_for_test(&self) {
        self.has_read();
    }
}

/// A request that is in flight until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    pub(super) fn begin(activity: &Arc<Activity>) -> Self {
        activity.started.fetch_add(1, Ordering::Relaxed);
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        activity.has_unparsed.store(false, Ordering::Relaxed);
        activity.has_progress();
        Self(activity.clone())
    }

    /// A piece of the response that is to be written.
    pub(super) fn unsent(&self) -> Unsent {
        self.0.unsent.fetch_add(1, Ordering::Relaxed);
        Unsent(self.0.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // The body of a request is read during the request.
        self.0.has_unparsed.store(false, Ordering::Relaxed);
        self.0.has_progress();
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A piece of a response that is not written until this is dropped.
#[derive(Debug)]
pub(super) struct Unsent(Arc<Activity>);

impl Unsent {
    /// The protocol has written so many bytes. With HTTP/1.1 these are only in its buffer.
    pub(super) fn has_written(&self, bytes: usize) {
        if self.0.version() == Version::Http2 {
            self.0.has_taken(bytes);
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.unsent.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream whose bytes are noticed, and that holds the place of its connection, also after an upgrade.
#[derive(Debug)]
pub(super) struct Observed<I> {
    io: I,
    activity: Arc<Activity>,
    first: FirstBytes,
    _place: Arc<Place>,
}

impl<I> Observed<I> {
    pub(super) fn new(io: I, activity: Arc<Activity>, place: Arc<Place>) -> Self {
        Self { io, activity, first: FirstBytes::default(), _place: place }
    }

    fn written(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.is_blocked.store(result.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(bytes)) = result
            && self.activity.version() == Version::Http1
        {
            self.activity.has_taken(bytes);
        }
        result
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Observed<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        if !new.is_empty() {
            if let Some(version) = self.first.read(new) {
                self.activity.set_version(version);
            }
            self.activity.has_read();
        }
        result
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Observed<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.written(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_flush(cx);
        self.activity.is_blocked.store(result.is_pending(), Ordering::Relaxed);
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// The first bytes of a connection, until they show the protocol. A connection without the whole preface of HTTP/2 is not one of it.
#[derive(Debug, Default)]
struct FirstBytes(usize);

impl FirstBytes {
    /// The version, when it becomes known.
    fn read(&mut self, bytes: &[u8]) -> Option<Version> {
        let rest = PREFACE.get(self.0..).filter(|rest| !rest.is_empty())?;
        let compared = rest.len().min(bytes.len());
        if bytes[..compared] != rest[..compared] {
            self.0 = PREFACE.len();
            return Some(Version::Http1);
        }
        self.0 += compared;
        (self.0 == PREFACE.len()).then_some(Version::Http2)
    }
}

fn now() -> u64 {
    u64::try_from(BEGUN.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The first time that was asked for.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// For how long a client may need to send its first request, over TLS as well.
const NEW: Duration = Duration::from_secs(1);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_in_the_first_bytes() {
        let read = |parts: &[&[u8]]| {
            let mut first = FirstBytes::default();
            parts.iter().map(|part| first.read(part)).collect::<Vec<_>>()
        };
        assert_eq!(read(&[b"GET / HTTP/1.1", b"PRI "]), [Some(Version::Http1), None]);
        assert_eq!(read(&[b"P", b"OST"]), [None, Some(Version::Http1)]);
        assert_eq!(
            read(&[b"PR", b"I * HTTP/2.0\r\n\r\nSM\r\n\r\n\0", b"GET"]),
            [None, Some(Version::Http2), None]
        );
    }
}
