//! Opening a connection, and what is found out about the server then.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::config::{ConnectionConfig, PerformanceConfig, TcpConfig};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::address::Address;
use super::journal::Journal;
use super::link::{Link, State};
use super::script::Loader;
use super::{CallError, ConnectError, Connection, Options, Script, Shared};

impl Connection {
    /// Connects to the server at `url`: `redis://`, `rediss://` (feature `tls`), `redis-cluster://` with
    /// `?node=host:port` for more nodes, `redis-sentinel://` with `?sentinelServiceName=name`.
    ///
    /// A server that cannot be reached is not an error: after [`Options::connect_wait`] a warning is logged,
    /// calls fail as [`CallError::Unavailable`], and connecting goes on.
    ///
    /// # Errors
    /// What does not heal by itself: a bad URL, wrong credentials, a user that may not run scripts, a server
    /// that does not run any.
    pub(crate) async fn open(url: &str, options: Options) -> Result<Self, ConnectError> {
        let Address { shown, config } = Address::parse(url, options.roots.as_deref())?;
        let performance =
            PerformanceConfig { default_command_timeout: options.deadline, ..Default::default() };
        let connection = connection_config(&options);
        let make =
            move || Client::new(config.clone(), Some(performance.clone()), Some(connection.clone()), None);
        let size = options.pool_size;
        Self::start(shown, &options, |journal| {
            (0..size).map(|_| Link::supervised(make.clone(), Arc::clone(journal))).collect()
        })
        .await
    }

    /// Uses a client that the caller made, configured and connected, and that reconnects by itself.
    ///
    /// Calls ask for one attempt, a timeout and no waiting without a connection whatever its configuration;
    /// its `max_command_attempts` should be 1 and its `max_redirections` 0 for everything else.
    ///
    /// # Errors
    /// A user that may not run scripts, or a server that does not run any.
    pub(crate) async fn from_client(client: Client, options: Options) -> Result<Self, ConnectError> {
        Self::adopt(vec![client], &options).await
    }

    /// Uses the clients of a pool as [`from_client`](Self::from_client) uses one.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn from_pool(pool: &Pool, options: Options) -> Result<Self, ConnectError> {
        Self::adopt(pool.clients().to_vec(), &options).await
    }

    async fn adopt(clients: Vec<Client>, options: &Options) -> Result<Self, ConnectError> {
        let server = clients.first().and_then(|client| client.client_config().server.hosts().pop());
        let server = server.map_or_else(String::new, |server| server.to_string());
        Self::start(server, options, |journal| {
            clients.into_iter().map(|client| Link::watched(client, Arc::clone(journal))).collect()
        })
        .await
    }

    async fn start<F: Future<Output = ()> + Send + 'static>(
        server: String,
        options: &Options,
        make: impl FnOnce(&Arc<Journal>) -> Vec<(Link, F)>,
    ) -> Result<Self, ConnectError> {
        let journal = Journal::new(server.clone());
        let mut tasks = JoinSet::new();
        let (links, futures): (Vec<_>, Vec<_>) = make(&journal).into_iter().unzip();
        for future in futures {
            tasks.spawn(future);
        }
        let shared = Shared {
            server,
            deadline: options.deadline,
            links,
            next: AtomicUsize::new(0),
            loader: Loader::default(),
            journal,
            _tasks: tasks,
        };
        let connection = Self(Arc::new(shared));
        connection.settle(options.connect_wait).await?;
        Ok(connection)
    }

    /// Waits for the links, and if they come up tries what every call needs.
    async fn settle(&self, wait: Duration) -> Result<(), ConnectError> {
        let end = Instant::now() + wait;
        let why = |reply: &str| ConnectError::from_reply(&self.0.server, reply);
        for link in &self.0.links {
            match timeout_at(end, link.settled(|error| why(error.details()).is_some())).await {
                Ok(State::Up(_)) => {}
                Ok(State::Down(error)) => return why(error.details()).map_or(Ok(()), Err),
                Err(_) => {
                    self.0.journal.down(&format!("no connection within {wait:?}"));
                    return Ok(());
                }
            }
        }
        match self.probe().await {
            Err(CallError::Denied(reply) | CallError::Server(reply)) => why(&reply).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    async fn probe(&self) -> Result<(), CallError> {
        let probe = Script::new(PROBE);
        self.load(&probe).await?;
        self.call(&probe, Vec::new(), Vec::new()).await.map(drop)
    }
}

/// One attempt per command, since a script whose reply is lost must not run again. No redirection, since
/// following an ASK ends the task of fred. No detection of silence, since `pulse` does it.
fn connection_config(options: &Options) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT_TIMEOUT,
        internal_command_timeout: CONNECT_TIMEOUT,
        max_command_attempts: 1,
        max_redirections: 0,
        max_command_buffer_len: options.max_buffered,
        tcp: TcpConfig { nodelay: Some(true), ..Default::default() },
        ..Default::default()
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Every script reads the clock.
const PROBE: &str = "return redis.call('TIME')[1]";
