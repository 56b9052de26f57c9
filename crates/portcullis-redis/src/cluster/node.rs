//! One server and the links to it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::fred::Client;
use crate::fred::command::{Attempt, Command};
use crate::fred::config::ClientConfig;
use crate::fred::link::Link;
use crate::fred::live::Live;
use crate::fred::loader::Loader;
use crate::protocol::node_addr::NodeAddr;
use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::resilience::outage_log::OutageLog;
use crate::transport::{Availability, CallError, Options, QueueKey};

/// A server, or the server behind a client of the user. Its links end with it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) server: NodeAddr,
    pub(crate) links: Vec<Arc<Link>>,
    pub(crate) outage_log: Arc<OutageLog>,
    created: Instant,
    next: AtomicUsize,
    loader: Loader,
    _tasks: JoinSet<()>,
}

/// The part of a call that all its attempts share.
pub(crate) struct RoutedCall<'a> {
    pub(crate) script: &'a Script,
    pub(crate) command: Command,
    pub(crate) start: Instant,
    /// The slot in a cluster.
    pub(crate) slot: Option<u16>,
    pub(crate) queue: QueueKey<'a>,
}

impl Node {
    /// Makes the configured number of links. `refresh_signal` is notified when one of them fails or connects.
    pub(crate) fn supervised(
        server: NodeAddr,
        config: &ClientConfig,
        options: &Options,
        outage_log: Arc<OutageLog>,
        refresh_signal: &Arc<Notify>,
    ) -> Self {
        let make = config.connector(options);
        let links = (0..options.pool_size).map(|_| {
            Link::supervised(make.clone(), options, Arc::clone(&outage_log), Arc::clone(refresh_signal))
        });
        Self::new(server, links.collect(), options, outage_log)
    }

    /// Makes links to clients of the user.
    pub(crate) fn watched(
        server: NodeAddr,
        clients: Vec<Client>,
        options: &Options,
        outage_log: Arc<OutageLog>,
    ) -> Self {
        let links = clients.into_iter().map(|client| Link::watched(client, options, Arc::clone(&outage_log)));
        Self::new(server, links.collect(), options, outage_log)
    }

    fn new<F>(server: NodeAddr, links: Vec<(Link, F)>, options: &Options, outage_log: Arc<OutageLog>) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        let links = links.into_iter().map(|(link, future)| (Arc::new(link), future));
        let (links, futures): (Vec<_>, Vec<_>) = links.unzip();
        for future in futures {
            tasks.spawn(future);
        }
        let (created, next, stats) = (Instant::now(), AtomicUsize::new(0), Arc::clone(&options.stats));
        let loader = Loader::new(options.deadline, stats);
        Self { server, links, outage_log, created, next, loader, _tasks: tasks }
    }

    /// Runs a script, like [`Transport::run`](crate::transport::Transport::run). One that the server lacks is loaded or sent first.
    pub(crate) async fn call(&self, call: &RoutedCall<'_>, attempt: Attempt) -> Result<Value, CallError> {
        let now = if attempt == Attempt::First { call.start } else { Instant::now() };
        let result = self.pick().call(call.command.attempt(attempt), call.queue, now).await;
        match self.judge(call, result) {
            // Boxed, because it happens once, and each call would have the memory for it.
            Err(error) if error.is_no_script() => Box::pin(self.load_and_call(call, attempt)).await,
            result => result,
        }
    }

    /// Loads the script of a call and runs it then, or sends its source if the server refuses to load it.
    async fn load_and_call(&self, call: &RoutedCall<'_>, attempt: Attempt) -> Result<Value, CallError> {
        let refusal = self.load_in_time(call).await?;
        let command = call.command.attempt(attempt);
        let Some(refusal) = refusal else { return self.send(call, command).await };
        let sent = Instant::now();
        match self.send(call, command.into_eval(call.script)).await {
            Err(error) if error.refuses_command() => {
                self.loader.ask_again(sent);
                Err(CallError::neither(refusal, error))
            }
            result => {
                if result.is_ok() {
                    self.outage_log.load_refused(&refusal);
                }
                result
            }
        }
    }

    /// Sends a command of a call once, on one of the links.
    async fn send(&self, call: &RoutedCall<'_>, command: Command) -> Result<Value, CallError> {
        let result = self.pick().call(command, call.queue, Instant::now()).await;
        self.judge(call, result)
    }

    fn judge(&self, call: &RoutedCall<'_>, result: Result<Value, CallError>) -> Result<Value, CallError> {
        match result {
            // The server is reachable: it has answered other calls on another link.
            Err(CallError::TimedOut(deadline))
                if self.links.iter().any(|link| link.answered_since(call.start)) =>
            {
                Err(CallError::Overtaken(deadline))
            }
            result => result,
        }
    }

    /// Loads a script that uses no keys, or runs it by `EVAL` if the server refuses to load it.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), CallError> {
        if let Some(refusal) = self.loader.load_or_run(&self.live()?, script).await? {
            self.outage_log.load_refused(&refusal);
        }
        Ok(())
    }

    /// Loads the script of a call within its deadline, unless it was loaded since the call started. Returns the refusal, if any.
    async fn load_in_time(&self, call: &RoutedCall<'_>) -> Result<Option<CallError>, CallError> {
        let Command { end, deadline, .. } = call.command;
        let (asked, link) = (Instant::now(), Arc::clone(self.pick()));
        let load = async {
            let live = self.live()?;
            match self.loader.load(&live, call.script, call.start, call.slot).await {
                // What it means is not known before the end of the wait.
                Err(CallError::NotLoaded(_)) => pending().await,
                loaded => loaded,
            }
        };
        let loaded = link.wait_until((asked, end, deadline), load).await;
        // Without an outage the server is reachable. It replied that it lacks the script, and to other calls since.
        let is_out = link.availability().outage.is_some() && !self.replied_since(asked);
        let late = if is_out { CallError::NotLoaded(deadline) } else { CallError::NotSent(deadline) };
        loaded.unwrap_or(Err(late))
    }

    /// Returns a connected client.
    pub(crate) fn live(&self) -> Result<Live, CallError> {
        self.pick().live()
    }

    /// What a call would meet now. Does not allocate.
    pub(crate) fn availability(&self) -> Availability {
        let links = self.links.iter().map(|link| link.availability());
        links.reduce(Availability::or).expect("a node has at least one link")
    }

    /// Whether a reply has come since an instant, in time or not.
    pub(crate) fn replied_since(&self, start: Instant) -> bool {
        self.links.iter().any(|link| link.replied_since(start))
    }

    /// Waits until a new node is connected. Does not wait for a node that has existed for [`LONGEST_CONNECT`].
    pub(crate) async fn reached(&self, end: Instant) -> Result<(), CallError> {
        let end = end.min(self.created + LONGEST_CONNECT);
        let _ = timeout_at(end, self.links[0].settled(|_| false)).await;
        self.live().map(drop)
    }

    /// Waits until the first attempt of each link to connect has ended.
    pub(crate) async fn first_attempt(&self) {
        for link in &self.links {
            link.first_attempt().await;
        }
    }

    /// Makes the waiting calls of a key check whether they are denied.
    pub(crate) fn recheck_denied(&self, key: u128) {
        self.links.iter().for_each(|link| link.recheck_denied(key));
    }

    /// Picks the next link in turn, preferring one that does not reject calls.
    fn pick(&self) -> &Arc<Link> {
        let links = &self.links;
        if links.len() == 1 {
            return &links[0];
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % links.len();
        let mut turns = links[first..].iter().chain(&links[..first]);
        turns.find(|link| !link.availability().rejects()).unwrap_or(&links[first])
    }
}

/// After this time a node that is still not connected counts as unreachable.
const LONGEST_CONNECT: Duration = Duration::from_secs(1);
