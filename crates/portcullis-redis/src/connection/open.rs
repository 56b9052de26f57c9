//! Opens a connection and examines the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::renewal::Renewal;
use super::server_info::ServerInfo;
use super::{Connection, Route, Shared};
use crate::cluster::Cluster;
use crate::cluster::node::Node;
use crate::fred::Client;
use crate::fred::address::Address;
use crate::fred::config::ClientConfig;
use crate::lock::lock;
use crate::protocol::node_addr::NodeAddr;
use crate::protocol::script::Script;
use crate::resilience::outage_log::OutageLog;
use crate::transport::{CallError, ConnectError, Options, Transport as _};

impl Connection {
    /// Connects to the server at `url`, as [`RedisStoreBuilder::connect`](crate::RedisStoreBuilder::connect) describes.
    pub(crate) async fn open(url: &str, options: Options) -> Result<Self, ConnectError> {
        let Address { masked_url, config } = Address::parse(url, options.roots.as_deref())?;
        let outage_log = OutageLog::new(masked_url.clone(), None);
        let origin = Some((config.clone(), options.clone()));
        Self::linked(masked_url, &config, origin, &options, outage_log).start(&options).await
    }

    /// Makes the links, which connect in the runtime of the caller.
    pub(super) fn linked(
        server: String,
        config: &ClientConfig,
        origin: Option<(ClientConfig, Options)>,
        options: &Options,
        outage_log: Arc<OutageLog>,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let route = if config.is_clustered() {
            let (cluster, keeper) = Cluster::new(config.clone(), options.clone(), Arc::clone(&outage_log));
            tasks.spawn(keeper);
            Route::Cluster(cluster)
        } else {
            let (host, log) = (first_host(config), Arc::clone(&outage_log));
            Route::One(Arc::new(Node::supervised(host, config, options, log, &Arc::default())))
        };
        Self::new(server, route, outage_log, origin, tasks, options)
    }

    /// Uses clients that the caller made, configured and connected, and that reconnect by themselves.
    pub(crate) async fn from_clients(clients: Vec<Client>, options: Options) -> Result<Self, ConnectError> {
        let config = clients.first().map(ClientConfig::of);
        let server = config.map_or_else(unknown_host, |config| first_host(&config));
        let masked_url = server.to_string();
        let outage_log = OutageLog::new(masked_url.clone(), None);
        let route = Route::One(Arc::new(Node::watched(server, clients, &options, Arc::clone(&outage_log))));
        Self::new(masked_url, route, outage_log, None, JoinSet::new(), &options).start(&options).await
    }

    fn new(
        server: String,
        route: Route,
        outage_log: Arc<OutageLog>,
        origin: Option<(ClientConfig, Options)>,
        mut tasks: JoinSet<()>,
        options: &Options,
    ) -> Self {
        let renewal = Renewal::new(origin, &mut tasks);
        let shared = Shared {
            server,
            deadline: options.deadline,
            route,
            outage_log,
            stats: Arc::clone(&options.stats),
            runtime: Handle::current(),
            renewal,
            tasks: Mutex::new(tasks),
        };
        Self(Arc::new(shared))
    }

    async fn start(self, options: &Options) -> Result<Self, ConnectError> {
        if !self.wait_for_links(options.connect_wait).await? || !self.examine().await? {
            self.examine_later();
        }
        Ok(self)
    }

    /// Waits for the links to connect. Returns whether one is up.
    async fn wait_for_links(&self, wait: Duration) -> Result<bool, ConnectError> {
        let end = Instant::now() + wait;
        if let Route::Cluster(cluster) = &self.0.route
            && !self.wait_for_map(cluster, end).await?
        {
            self.0.outage_log.down(&format!("no node returned the slots of the cluster within {wait:?}"));
            return Ok(false);
        }
        for node in self.nodes() {
            for link in &node.links {
                match timeout_at(end, link.settled(|reason| self.permanent_error(reason).is_some())).await {
                    Ok(state) => {
                        if let Some(reason) = state.failure() {
                            return self.permanent_error(reason).map_or(Ok(false), Err);
                        }
                    }
                    Err(_) => node.outage_log.down(&format!("no connection within {wait:?}")),
                }
            }
        }
        Ok(self.availability(None).is_connected)
    }

    /// Tries the commands that every call needs, and logs the servers' properties. Returns whether they could be tried.
    async fn examine(&self) -> Result<bool, ConnectError> {
        match self.probe().await {
            Ok(()) | Err(CallError::Moving(_)) => {}
            Err(CallError::Denied(reply) | CallError::Server(reply)) => {
                self.permanent_error(&reply).map_or(Ok(()), Err)?;
            }
            // It is not known yet.
            Err(_) => return Ok(false),
        }
        let servers = self.nodes().iter().filter_map(|node| node.live().ok()).collect();
        let info = ServerInfo::of(servers).await;
        if let Some(error) = info.refusal(&self.0.server, self.is_cluster()) {
            return Err(error);
        }
        info.log(&self.0.server);
        Ok(true)
    }

    /// Examines the server as soon as there is a connection. A permanent error is then logged, because no caller waits for it.
    fn examine_later(&self) {
        let shared = Arc::downgrade(&self.0);
        let later = async move {
            while let Some(shared) = shared.upgrade() {
                let connection = Self(shared);
                if connection.availability(None).is_connected {
                    match connection.examine().await {
                        Ok(true) => return,
                        Ok(false) => {}
                        Err(error) => return connection.0.outage_log.unusable(&error),
                    }
                }
                drop(connection);
                sleep(EXAMINE_INTERVAL).await;
            }
        };
        lock(&self.0.tasks).spawn(later);
    }

    /// Waits for the first slot map of a cluster. Returns whether one was read.
    async fn wait_for_map(&self, cluster: &Cluster, end: Instant) -> Result<bool, ConnectError> {
        while !cluster.is_known() {
            let refusal = cluster.refusal().and_then(|reply| self.permanent_error(&reply));
            let nodes = cluster.members();
            let mut states = nodes.iter().flat_map(|node| &node.links).map(|link| link.state());
            let refused = states.find_map(|state| self.permanent_error(state.failure()?));
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

    /// The permanent error that a reply stands for, if any.
    fn permanent_error(&self, reply: &str) -> Option<ConnectError> {
        ConnectError::from_reply(&self.0.server, reply)
    }

    async fn probe(&self) -> Result<(), CallError> {
        let probe = Script::new(PROBE).with_write_check(|_| false);
        self.load(&probe).await?;
        self.call(&probe, Vec::new(), Vec::new()).await.map(drop)
    }
}

fn first_host(config: &ClientConfig) -> NodeAddr {
    config.hosts().into_iter().next().unwrap_or_else(unknown_host)
}

fn unknown_host() -> NodeAddr {
    NodeAddr { host: String::new(), port: 0, name: None }
}

const EXAMINE_INTERVAL: Duration = Duration::from_millis(250);
/// Every script reads the clock.
const PROBE: &str = "return redis.call('TIME')[1]";
