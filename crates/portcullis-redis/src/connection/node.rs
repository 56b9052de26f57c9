//! One server and the links to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::types::Value;
use fred::types::config::Server;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::error::CallError;
use super::in_flight::QueueKey;
use super::link::{Command, Link, Live};
use super::options::Options;
use super::outage_log::OutageLog;
use super::script::{Loader, Script};

/// A server, or what a client of the user stands for. Its links end with it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) links: Vec<Link>,
    pub(super) outage_log: Arc<OutageLog>,
    made: Instant,
    next: AtomicUsize,
    loader: Loader,
    _tasks: JoinSet<()>,
}

/// A call: what all attempts at it have in common.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) script: &'a Script,
    pub(super) command: Command,
    pub(super) start: Instant,
    /// The slot in a cluster.
    pub(super) slot: Option<u16>,
    pub(super) queue: QueueKey<'a>,
}

impl Node {
    /// Makes as many links as the options say. The alarm is told when one of them fails or
    /// connects.
    pub(super) fn supervised(
        server: Server,
        make: impl Fn() -> Client + Clone + Send + 'static,
        options: &Options,
        outage_log: Arc<OutageLog>,
        alarm: &Arc<Notify>,
    ) -> Self {
        let links = (0..options.pool_size)
            .map(|_| Link::supervised(make.clone(), options, Arc::clone(&outage_log), Arc::clone(alarm)));
        Self::new(server, links.collect(), outage_log)
    }

    /// Uses clients of the user.
    pub(super) fn watched(
        server: Server,
        clients: Vec<Client>,
        options: &Options,
        outage_log: Arc<OutageLog>,
    ) -> Self {
        let links = clients.into_iter().map(|client| Link::watched(client, options, Arc::clone(&outage_log)));
        Self::new(server, links.collect(), outage_log)
    }

    fn new<F>(server: Server, links: Vec<(Link, F)>, outage_log: Arc<OutageLog>) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        let (links, futures): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        for future in futures {
            tasks.spawn(future);
        }
        let (made, next, loader) = (Instant::now(), AtomicUsize::new(0), Loader::default());
        Self { server, links, outage_log, made, next, loader, _tasks: tasks }
    }

    /// Runs a script, and loads it before if the server does not know it.
    ///
    /// # Errors
    /// As [`Connection::call`](super::Connection::call), and with a redirection where the server gives one.
    pub(super) async fn call(&self, call: &Call<'_>, asking: bool) -> Result<Value, CallError> {
        match self.send(call, asking).await {
            Err(error) if error.is_no_script() => {}
            result => return result,
        }
        let loaded = timeout_at(call.command.end, self.load(call.script, call.start)).await;
        loaded.unwrap_or(Err(CallError::NotLoaded(call.command.deadline)))?;
        self.send(call, asking).await
    }

    /// Sends a call once, on one of the links.
    async fn send(&self, call: &Call<'_>, asking: bool) -> Result<Value, CallError> {
        let command = Command { asking, ..call.command.clone() };
        match self.pick().call(command, call.queue).await {
            // The server is there: it has answered others on another link.
            Err(CallError::TimedOut(deadline))
                if self.links.iter().any(|link| link.answered_since(call.start)) =>
            {
                Err(CallError::Overtaken(deadline))
            }
            result => result,
        }
    }

    /// Loads a script, unless that was done since `missed`.
    ///
    /// # Errors
    /// Without a connection, or when the server refuses.
    pub(super) async fn load(&self, script: &Script, missed: Instant) -> Result<(), CallError> {
        self.loader.load(&self.live()?.client, script, missed).await
    }

    /// A client that is connected.
    ///
    /// # Errors
    /// [`CallError::Unavailable`] with the last error, if there is none.
    pub(super) fn live(&self) -> Result<Live, CallError> {
        self.pick().live()
    }

    /// Why a call would be refused now. It allocates nothing.
    pub(super) fn shut(&self) -> Option<CallError> {
        let mut reason = None;
        for link in &self.links {
            reason = Some(link.shut()?);
        }
        reason
    }

    /// Waits until a node that was just made is connected, but not for one that is gone.
    ///
    /// # Errors
    /// [`CallError::Unavailable`] if it is not connected, at the latest at `end`.
    pub(super) async fn reached(&self, end: Instant) -> Result<(), CallError> {
        let end = end.min(self.made + LONGEST_GREETING);
        let _ = timeout_at(end, self.links[0].settled(|_| false)).await;
        self.live().map(drop)
    }

    /// Waits until the first attempts to connect are over, if they have only begun.
    pub(super) async fn tried(&self) {
        for link in &self.links {
            link.tried().await;
        }
    }

    /// Has the waiting calls of a key ask whether they are denied.
    pub(super) fn look_again(&self, key: u128) {
        self.links.iter().for_each(|link| link.look_again(key));
    }

    /// For how long nobody has been answered; `None` while somebody is.
    pub(super) fn outage(&self) -> Option<Duration> {
        let mut shortest = Duration::MAX;
        for link in &self.links {
            shortest = shortest.min(link.outage()?);
        }
        Some(shortest)
    }

    /// Picks a link, taking turns, and one that is open if there is any.
    fn pick(&self) -> &Link {
        let links = &self.links;
        if links.len() == 1 {
            return &links[0];
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % links.len();
        let mut turns = links[first..].iter().chain(&links[..first]);
        turns.find(|link| link.shut().is_none()).unwrap_or(&links[first])
    }
}

/// A node that takes longer to connect to is not there.
const LONGEST_GREETING: Duration = Duration::from_secs(1);
