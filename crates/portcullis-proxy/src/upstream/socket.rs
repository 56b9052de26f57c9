//! The socket of a connection, at which the pool looks as well.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream at which others can [look](SocketView). They look while the connection has no request, so that the lock is free.
///
/// A stream that is shared without a lock would be asked once more after each read whether there is more: Tokio knows that there is not.
#[derive(Debug)]
pub(super) struct Socket(Arc<Mutex<TcpStream>>);

/// A look at a socket, which does not keep it open.
#[derive(Debug)]
pub(super) struct SocketView(Weak<Mutex<TcpStream>>);

impl Socket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(tcp)))
    }

    pub(super) fn view(&self) -> SocketView {
        SocketView(Arc::downgrade(&self.0))
    }

    fn stream(&self) -> MutexGuard<'_, TcpStream> {
        lock(&self.0)
    }
}

/// Nothing panics while it is held.
fn lock(stream: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SocketView {
    /// Whether the socket is open, and the peer has neither sent anything that is not read yet, nor closed the connection. The system is
    /// asked: Tokio learns of bytes later, and until then a request would be sent whose response they seem to be.
    pub(super) fn is_quiet(&self) -> bool {
        let Some(stream) = self.0.upgrade() else { return false };
        let peeked = SockRef::from(&*lock(&stream)).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(cx)
    }
}
