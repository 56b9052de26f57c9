//! A TCP proxy between clients and a server, which injects faults.

mod relay;

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// A TCP proxy on a free port of the loopback interface, with a [`Fault`] that can change at any time.
///
/// It runs on a thread of its own, so that neither a test without a runtime nor a busy or paused runtime affects it. It closes
/// its connections and ends when it is dropped.
///
/// ```
/// use std::io::Read as _;
/// use std::net::{TcpListener, TcpStream};
///
/// use portcullis_servers::{Fault, FaultProxy};
///
/// # fn main() -> std::io::Result<()> {
/// let server = TcpListener::bind("127.0.0.1:0")?;
/// let proxy = FaultProxy::start(server.local_addr()?.port())?;
/// proxy.set_fault(Fault::Refuse);
/// let mut client = TcpStream::connect(("127.0.0.1", proxy.port()))?;
/// assert_eq!(client.read(&mut [0])?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    settings: Arc<Settings>,
    /// The number of times that all connections were closed. A change closes the open ones, and a drop ends the proxy.
    closes: watch::Sender<u64>,
}

/// The treatment of connections and bytes by a [`FaultProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bytes are forwarded.
    None,
    /// Replies are forwarded after this time.
    Delay(Duration),
    /// This number of bytes of replies is forwarded every 10 ms; zero counts as one.
    Pace(usize),
    /// Bytes are forwarded a few at a time, in both directions.
    Fragment,
    /// Requests are forwarded; the reply closes the connection instead, and is [counted](FaultProxy::cut_replies).
    CutReply,
    /// Bytes are forwarded until a request contains this command, such as `EVAL`; from then on this is [`CutReply`](Self::CutReply).
    CutReplyTo(&'static str),
    /// Half of a request is forwarded, then the connection is closed.
    CutRequest,
    /// Bytes are read and discarded, in both directions. When this fault ends, the next bytes close the connection.
    Discard,
    /// Connections are closed as soon as they are accepted, open ones with their next bytes.
    Refuse,
    /// Bytes are forwarded until a request contains `LOAD`, as in `SCRIPT LOAD`; from then on this is [`Discard`](Self::Discard). A
    /// later reply would be taken for that of the request.
    DiscardFromLoad,
    /// Replies are discarded on this number of connections, counted from the first that the proxy accepted.
    MuteFirst(usize),
}

impl FaultProxy {
    /// Starts a proxy without a fault in front of a port of this machine.
    pub fn start(target: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let settings = Arc::new(Settings {
            fault: Mutex::new(Fault::None),
            target: target.into(),
            cut_replies: AtomicUsize::new(0),
        });
        let (closes, receiver) = watch::channel(0);
        let serve = relay::serve(listener, Arc::clone(&settings), receiver);
        thread::Builder::new().name("fault proxy".to_owned()).spawn(move || runtime.block_on(serve))?;
        Ok(Self { port, settings, closes })
    }

    /// The port to connect to instead of the server's.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the fault for all connections.
    pub fn set_fault(&self, fault: Fault) {
        self.settings.set_fault(fault);
    }

    /// Sets the port to which new connections are forwarded.
    pub fn set_target(&self, target: u16) {
        self.settings.target.store(target, Ordering::SeqCst);
    }

    /// Closes all connections. It returns before they are closed.
    pub fn close_connections(&self) {
        self.closes.send_modify(|closes| *closes += 1);
    }

    /// The number of replies that [`Fault::CutReply`] has replaced by the end of their connection.
    pub fn cut_replies(&self) -> usize {
        self.settings.cut_replies.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Settings {
    fault: Mutex<Fault>,
    target: AtomicU16,
    cut_replies: AtomicUsize,
}

impl Settings {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_fault(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

#[cfg(test)]
mod tests;
