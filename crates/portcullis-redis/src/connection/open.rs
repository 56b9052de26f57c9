//! Opening a connection, and what is found out about the server then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, Server};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::address::Address;
use super::client::{new_client, turned};
use super::cluster::Cluster;
use super::link::{Link, State};
use super::node::Node;
use super::outage_log::OutageLog;
use super::survey::ServerInfo;
use super::{CallError, ConnectError, Connection, Options, Route, Script, Shared};

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
        let outage_log = OutageLog::new(shown.clone(), None);
        let mut tasks = JoinSet::new();
        let route = if config.server.is_clustered() {
            let (cluster, keeper) =
                Cluster::new(shown.clone(), config, options.clone(), Arc::clone(&outage_log));
            tasks.spawn(keeper);
            Route::Cluster(cluster)
        } else {
            let server = first_host(&config);
            let own = options.clone();
            let attempts = Arc::new(AtomicUsize::new(0));
            let make = move || new_client(&turned(&config, attempts.fetch_add(1, Ordering::Relaxed)), &own);
            Route::One(Arc::new(Node::supervised(
                server,
                make,
                &options,
                Arc::clone(&outage_log),
                &Arc::default(),
            )))
        };
        Self::start(shown, route, outage_log, tasks, &options).await
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
        let config = clients.first().map(ClientLike::client_config);
        let server = config.map_or_else(|| Server::new("", 0), |config| first_host(&config));
        let shown = server.to_string();
        let outage_log = OutageLog::new(shown.clone(), None);
        let route = Route::One(Arc::new(Node::watched(server, clients, options, Arc::clone(&outage_log))));
        Self::start(shown, route, outage_log, JoinSet::new(), options).await
    }

    async fn start(
        server: String,
        route: Route,
        outage_log: Arc<OutageLog>,
        tasks: JoinSet<()>,
        options: &Options,
    ) -> Result<Self, ConnectError> {
        let shared =
            Shared { server, deadline: options.deadline, route, outage_log, tasks: Mutex::new(tasks) };
        let connection = Self(Arc::new(shared));
        if !connection.settle(options.connect_wait).await? || !connection.examine().await? {
            connection.examine_later();
        }
        Ok(connection)
    }

    /// Waits for the links. Returns whether one is up.
    async fn settle(&self, wait: Duration) -> Result<bool, ConnectError> {
        let end = Instant::now() + wait;
        if let Route::Cluster(cluster) = &self.0.route
            && !self.found(cluster, end).await?
        {
            self.0.outage_log.down(&format!("no node told the slots of the cluster within {wait:?}"));
            return Ok(false);
        }
        for node in self.nodes() {
            for link in &node.links {
                match timeout_at(end, link.settled(|error| self.why(error.details()).is_some())).await {
                    Ok(State::Up(_)) => {}
                    Ok(State::Down(error)) => return self.why(error.details()).map_or(Ok(false), Err),
                    Err(_) => node.outage_log.down(&format!("no connection within {wait:?}")),
                }
            }
        }
        Ok(self.is_up())
    }

    /// Tries what every call needs, and logs what the servers are. Returns whether they could be tried: one that loads its
    /// data, or is busy, can be greeted only.
    async fn examine(&self) -> Result<bool, ConnectError> {
        match self.probe().await {
            Ok(()) | Err(CallError::Moving(_)) => {}
            Err(CallError::Denied(reply) | CallError::Server(reply)) => {
                self.why(&reply).map_or(Ok(()), Err)?;
            }
            // Nobody knows yet.
            Err(_) => return Ok(false),
        }
        let clients = self.nodes().iter().filter_map(|node| Some(node.live().ok()?.client)).collect();
        let survey = ServerInfo::of(clients).await;
        if let Some(error) = survey.refusal(&self.0.server, self.is_cluster()) {
            return Err(error);
        }
        survey.log(&self.0.server);
        Ok(true)
    }

    /// Does so as soon as a server is there. What does not heal is then in the log, since nobody waits for it any more.
    fn examine_later(&self) {
        let shared = Arc::downgrade(&self.0);
        let later = async move {
            while let Some(shared) = shared.upgrade() {
                let connection = Self(shared);
                if connection.is_up() {
                    match connection.examine().await {
                        Ok(true) => return,
                        Ok(false) => {}
                        Err(error) => return connection.0.outage_log.misused(&error),
                    }
                }
                drop(connection);
                sleep(BETWEEN_LOOKS).await;
            }
        };
        // Nobody panics with the lock in hand.
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(later);
    }

    /// Waits until a cluster has told its slots. Returns whether it did.
    async fn found(&self, cluster: &Cluster, end: Instant) -> Result<bool, ConnectError> {
        while !cluster.is_known() {
            let refusal = cluster.refusal().and_then(|reply| self.why(&reply));
            let nodes = cluster.members();
            let mut states = nodes.iter().flat_map(|node| &node.links).map(Link::state);
            let refused = states.find_map(|state| match state {
                State::Down(error) => self.why(error.details()),
                State::Up(_) => None,
            });
            if let Some(error) = refusal.or(refused) {
                return Err(error);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(true)
    }

    /// Whether a reply is one that time does not heal.
    fn why(&self, reply: &str) -> Option<ConnectError> {
        ConnectError::from_reply(&self.0.server, reply)
    }

    async fn probe(&self) -> Result<(), CallError> {
        let probe = Script::new(PROBE).that_wrote(|_| false);
        self.load(&probe).await?;
        self.call(&probe, Vec::new(), Vec::new()).await.map(drop)
    }
}

fn first_host(config: &Config) -> Server {
    config.server.hosts().into_iter().next().unwrap_or_else(|| Server::new("", 0))
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Every script reads the clock.
const PROBE: &str = "return redis.call('TIME')[1]";
