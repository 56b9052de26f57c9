//! Reading the map of slots, one at a time and not too often.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::time::{Instant, sleep, timeout};

use super::super::error::CallError;
use super::super::jitter::around;
use super::super::options::Options;
use super::super::outage_log::OutageLog;
use super::super::script::command_options;
use super::map::{Map, View};
use super::place::Place;
use super::{Cluster, Member, Secretive};
use super::{Node, watch};

impl Cluster {
    /// A cluster that is known by some of its nodes only, and the future that reads its map whenever that is needed.
    pub(in super::super) fn new(
        shown: String,
        config: Config,
        options: Options,
        outage_log: Arc<OutageLog>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let mut seeds = Vec::new();
        if let ServerConfig::Clustered { hosts, .. } = &config.server {
            seeds.extend(hosts.iter().map(Place::of));
        }
        let cluster = Arc::new(Self {
            shown,
            config: Secretive(config),
            options,
            outage_log,
            seeds,
            view: Arc::new(View::empty()).into(),
            nodes: std::sync::Mutex::default(),
            alarm: Arc::default(),
            maps: watch::Sender::new(0),
            refusal: std::sync::Mutex::default(),
            asked: 0.into(),
        });
        cluster.sow();
        let keeper = Arc::clone(&cluster);
        (cluster, async move { keeper.keep().await })
    }

    async fn keep(&self) {
        loop {
            if self.refresh().await {
                // However many want it, the cluster is left alone between two looks at it.
                sleep(around(LEAST_PAUSE)).await;
            }
            if self.view().is_partly_down() {
                let _ = timeout(around(PAUSE_WHILE_DOWN), self.alarm.notified()).await;
            } else {
                self.alarm.notified().await;
            }
        }
    }

    /// Asks one node after the other until one has told the map. Returns whether there was any to ask.
    async fn refresh(&self) -> bool {
        let nodes = self.members();
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        let (mut refusal, mut asked) = (None, false);
        for step in 0..nodes.len() {
            let node = &nodes[(turn + step) % nodes.len()];
            if node.shut().is_some() {
                continue;
            }
            asked = true;
            let told = slots(node).await;
            match told.and_then(|reply| Map::parse(reply, &node.server.host)) {
                Ok(map) => {
                    self.apply(map).await;
                    refusal = None;
                    break;
                }
                Err(words) => refusal = Some(words),
            }
        }
        if self.locked().values().all(|member| member.node.shut().is_some()) {
            self.sow();
        }
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        asked
    }

    /// Connects to the nodes of the URL.
    fn sow(&self) {
        let mut nodes = self.locked();
        for seed in &self.seeds {
            if !nodes.contains_key(seed) {
                let node = Arc::new(self.connect(seed));
                nodes.insert(seed.clone(), Member { node, guest_until: None });
            }
        }
    }

    /// Connects to the nodes that are new, leaves those that are gone, and goes by the map as soon as that is done: until then
    /// the nodes of the one before send calls on.
    async fn apply(&self, map: Map) {
        let primaries = self.meet(&map);
        let greeted = async {
            for node in &primaries {
                node.tried().await;
            }
        };
        // A node that keeps it waiting is none to wait for.
        let _ = timeout(GREETING, greeted).await;
        let next = Arc::new(self.view().next(map, primaries));
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = next;
        self.maps.send_modify(|maps| *maps += 1);
        self.outage_log.up();
    }

    fn meet(&self, map: &Map) -> Vec<Arc<Node>> {
        let mut nodes = self.locked();
        let primaries = map.places.iter().map(|place| {
            // Somebody else who named the node may not have known by which name it is certified.
            if nodes.get_key_value(place).is_some_and(|(known, _)| known.name != place.name) {
                nodes.remove(place);
            }
            let member = nodes.entry(place.clone());
            let member =
                member.or_insert_with(|| Member { node: Arc::new(self.connect(place)), guest_until: None });
            Arc::clone(&member.node)
        });
        let primaries: Vec<_> = primaries.collect();
        let now = Instant::now();
        nodes.retain(|place, member| {
            let stays = map.places.contains(place) || member.guest_until.is_some_and(|until| now < until);
            if !stays {
                member.node.outage_log.gone();
            }
            stays
        });
        primaries
    }
}

async fn slots(node: &Node) -> Result<Value, String> {
    let words = |error: CallError| error.to_string();
    let client: Client = node.live().map_err(words)?.client;
    let client = client.with_options(&command_options(ASK_TIMEOUT));
    let command = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let reply = client.custom::<Value, Value>(command, vec!["SLOTS".into()]).await;
    reply.map_err(|error| error.details().to_owned())
}

/// On average, as the others.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// How often to look for the replica that is promoted in place of a primary.
const PAUSE_WHILE_DOWN: Duration = Duration::from_millis(400);
/// A node that takes longer is not asked again before others.
const ASK_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a map that names new nodes waits for connections to them.
const GREETING: Duration = Duration::from_millis(250);
