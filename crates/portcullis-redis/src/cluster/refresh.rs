//! Reads the map of slots, one read at a time and not too often.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::map::{Map, View};
use super::{Cluster, Member, Node, watch};
use crate::fred::config::ClientConfig;
use crate::lock::lock;
use crate::resilience::jitter::around;
use crate::resilience::outage_log::OutageLog;
use crate::transport::Options;

impl Cluster {
    /// Makes a cluster from some of its nodes, and the future that reads its map whenever that is needed.
    pub(crate) fn new(
        config: ClientConfig,
        options: Options,
        outage_log: Arc<OutageLog>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let seeds = config.hosts();
        let cluster = Arc::new(Self {
            config,
            options,
            runtime: Handle::current(),
            outage_log,
            seeds,
            view: Arc::new(View::empty()).into(),
            nodes: std::sync::Mutex::default(),
            refresh_signal: Arc::default(),
            maps: watch::Sender::new(0),
            refusal: std::sync::Mutex::default(),
            next_node: 0.into(),
        });
        cluster.connect_seeds();
        let refresher = Arc::clone(&cluster);
        (cluster, async move { refresher.refresh_loop().await })
    }

    async fn refresh_loop(&self) {
        loop {
            if self.refresh().await {
                // The pause bounds how often the map is read, however often that is requested.
                sleep(around(MIN_REFRESH_PAUSE)).await;
            }
            if self.view().is_partly_down() {
                let _ = timeout(around(PAUSE_WHILE_DOWN), self.refresh_signal.notified()).await;
            } else {
                self.refresh_signal.notified().await;
            }
        }
    }

    /// Asks one node after the other until one returns the map. Returns whether there was a node to ask.
    async fn refresh(&self) -> bool {
        let nodes = self.members();
        let turn = self.next_node.fetch_add(1, Ordering::Relaxed);
        let (mut refusal, mut asked) = (None, false);
        for step in 0..nodes.len() {
            let node = &nodes[(turn + step) % nodes.len()];
            if node.availability().rejects() {
                continue;
            }
            asked = true;
            let reply =
                async { node.live().map_err(|error| error.to_string())?.cluster_slots(ASK_TIMEOUT).await };
            match reply.await.and_then(|reply| Map::parse(reply, &node.server.host)) {
                Ok(map) => {
                    self.apply(map).await;
                    refusal = None;
                    break;
                }
                Err(words) => refusal = Some(words),
            }
        }
        if lock(&self.nodes).values().all(|member| member.node.availability().rejects()) {
            self.connect_seeds();
        }
        *lock(&self.refusal) = refusal;
        asked
    }

    /// Connects to the nodes of the URL.
    fn connect_seeds(&self) {
        let mut nodes = lock(&self.nodes);
        for seed in &self.seeds {
            if !nodes.contains_key(seed) {
                let node = Arc::new(self.connect(seed));
                nodes.insert(seed.clone(), Member { node, transient_until: None });
            }
        }
    }

    /// Connects to new nodes, drops those that are no longer in the map, and then replaces the map.
    async fn apply(&self, map: Map) {
        let primaries = self.reconcile(&map);
        let connected = async {
            for node in &primaries {
                node.first_attempt().await;
            }
        };
        // A node that does not connect in time must not delay the map.
        let _ = timeout(CONNECT_WAIT, connected).await;
        let next = Arc::new(self.view().next(map, primaries));
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = next;
        self.maps.send_modify(|maps| *maps += 1);
        self.outage_log.up();
    }

    fn reconcile(&self, map: &Map) -> Vec<Arc<Node>> {
        let mut nodes = lock(&self.nodes);
        let primaries = map.addrs.iter().map(|addr| {
            // A redirection that named the node may not have contained the name in its certificate.
            if nodes.get_key_value(addr).is_some_and(|(known, _)| known.name != addr.name) {
                nodes.remove(addr);
            }
            let member = nodes.entry(addr.clone());
            let member = member
                .or_insert_with(|| Member { node: Arc::new(self.connect(addr)), transient_until: None });
            Arc::clone(&member.node)
        });
        let primaries: Vec<_> = primaries.collect();
        let now = Instant::now();
        nodes.retain(|addr, member| {
            let stays = map.addrs.contains(addr) || member.transient_until.is_some_and(|until| now < until);
            if !stays {
                member.node.outage_log.removed();
            }
            stays
        });
        primaries
    }
}

/// Like the other pauses, the mean of a random pause.
const MIN_REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// How often the map is read while part of it is down, to find a promoted replica.
const PAUSE_WHILE_DOWN: Duration = Duration::from_millis(400);
/// Longer than this, another node is asked.
const ASK_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a new map waits for connections to its new nodes.
const CONNECT_WAIT: Duration = Duration::from_millis(250);
