//! A cluster: the map of its slots, and links to each node.
//!
//! The client's own routing connects to all primaries or to none. Here each primary has links of its own, so that a failed
//! primary makes only its own slots unavailable.

pub(crate) mod map;
pub(crate) mod node;
mod redirection;
mod refresh;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::fred::command::Attempt;
use crate::fred::config::ClientConfig;
use crate::lock::lock;
use crate::protocol::node_addr::NodeAddr;
use crate::protocol::value::Value;
use crate::resilience::jitter::around;
use crate::resilience::outage_log::OutageLog;
use crate::transport::{Availability, CallError, Options};

use self::map::View;
use self::node::{Node, RoutedCall};
use self::redirection::Redirection;

/// The nodes of a cluster and the map of its slots.
#[derive(Debug)]
pub(crate) struct Cluster {
    config: ClientConfig,
    options: Options,
    runtime: Handle,
    outage_log: Arc<OutageLog>,
    seeds: Vec<NodeAddr>,
    view: RwLock<Arc<View>>,
    nodes: Mutex<HashMap<NodeAddr, Member>>,
    /// Notified when the map is wrong, when part of it is down, and of every new connection.
    refresh_signal: Arc<Notify>,
    /// The number of maps that were read.
    maps: watch::Sender<u64>,
    /// Why the last attempt to read the map failed.
    refusal: Mutex<Option<String>>,
    next_node: AtomicUsize,
}

/// A node, and until when it is kept although it is not in the map.
#[derive(Debug)]
struct Member {
    node: Arc<Node>,
    transient_until: Option<Instant>,
}

impl Cluster {
    /// Runs a script on the node that serves its slot, and follows redirections.
    pub(crate) async fn call(&self, call: &RoutedCall<'_>) -> Result<Value, CallError> {
        let end = call.command.end;
        let Some(slot) = call.slot else { return self.any()?.call(call, Attempt::First).await };
        let (mut node, mut attempt, mut moved) = (self.serving(slot)?, Attempt::First, false);
        // The pause must leave time for another attempt.
        let pause = async || {
            let over = Instant::now() + around(MOVE_PAUSE);
            let is_in_time = over < end;
            if is_in_time {
                sleep_until(over).await;
            }
            is_in_time
        };
        // Each of these replies means that nothing was done. After the deadline there is no time to follow it, which is no outage.
        let late = |error: CallError| {
            let is_moving = matches!(error, CallError::Moving(_));
            if Instant::now() < end || !is_moving && !error.is_read_only() {
                return error;
            }
            if is_moving {
                self.refresh_signal.notify_one();
            }
            CallError::NotSent(call.command.deadline)
        };
        for _ in 0..MAX_REPEATS {
            let error = match node.call(call, attempt).await {
                Err(error) if Instant::now() < end => error,
                result => return result.map_err(late),
            };
            attempt = Attempt::Repeated;
            match error {
                CallError::Moving(ref words) => match Redirection::parse(words, &node.server.host) {
                    Some(Redirection::Moved(addr)) => {
                        self.refresh_signal.notify_one();
                        // Two nodes name each other until both know of the migration.
                        if moved && !pause().await {
                            return Err(error);
                        }
                        moved = true;
                        node = self.reach(addr, end).await?;
                    }
                    Some(Redirection::Ask(addr)) => {
                        node = self.reach(addr, end).await?;
                        attempt = Attempt::Asking;
                    }
                    None if pause().await => {}
                    None => return Err(error),
                },
                error if error.is_read_only() => {
                    if !self.renewed(end).await {
                        return Err(error);
                    }
                    node = self.serving(slot)?;
                }
                error => return Err(error),
            }
        }
        node.call(call, attempt).await.map_err(late)
    }

    /// What a call for a slot, or for any node, would meet now. Does not allocate.
    pub(crate) fn availability(&self, slot: Option<u16>) -> Availability {
        let view = self.read_view();
        let unserved_for = |outage| Availability { rejection: Some(unserved()), outage, is_connected: false };
        let Some(slot) = slot else {
            let all = view.nodes().iter().map(|node| node.availability()).reduce(Availability::or);
            let all = all.unwrap_or_else(|| unserved_for(None));
            return Availability { rejection: all.rejection.map(|_| unserved()), ..all };
        };
        view.node(slot).map_or_else(|| unserved_for(view.unserved_for()), |node| node.availability())
    }

    /// Whether a reply has come since an instant, in time or not, from the node of a slot or, without a slot, from any node.
    pub(crate) fn replied_since(&self, slot: Option<u16>, start: Instant) -> bool {
        let view = self.read_view();
        match slot {
            Some(slot) => view.node(slot).is_some_and(|node| node.replied_since(start)),
            None => view.nodes().iter().any(|node| node.replied_since(start)),
        }
    }

    /// Makes the waiting calls of a key check whether they are denied, on the node that serves the slot.
    pub(crate) fn recheck_denied(&self, slot: u16, key: u128) {
        self.read_view().node(slot).into_iter().for_each(|node| node.recheck_denied(key));
    }

    /// The primaries that have slots.
    pub(crate) fn primaries(&self) -> Vec<Arc<Node>> {
        self.view().nodes().to_vec()
    }

    /// All nodes to which there are links, including those with an unknown role.
    pub(crate) fn members(&self) -> Vec<Arc<Node>> {
        lock(&self.nodes).values().map(|member| Arc::clone(&member.node)).collect()
    }

    /// Whether a map was read.
    pub(crate) fn is_known(&self) -> bool {
        *self.maps.borrow() > 0
    }

    /// Why the last attempt to read the map failed, if it did.
    pub(crate) fn refusal(&self) -> Option<String> {
        lock(&self.refusal).clone()
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.read_view())
    }

    fn read_view(&self) -> RwLockReadGuard<'_, Arc<View>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self, slot: u16) -> Result<Arc<Node>, CallError> {
        self.view().node(slot).cloned().ok_or_else(unserved)
    }

    fn any(&self) -> Result<Arc<Node>, CallError> {
        let view = self.view();
        let open = view.nodes().iter().find(|node| !node.availability().rejects());
        open.or(view.nodes().first()).cloned().ok_or_else(unserved)
    }

    /// Waits for a newer map until `end`. Returns whether one was read.
    async fn renewed(&self, end: Instant) -> bool {
        let mut maps = self.maps.subscribe();
        maps.mark_unchanged();
        self.refresh_signal.notify_one();
        timeout_at(end, maps.changed()).await.is_ok()
    }

    /// Returns the node that a redirection names, and connects to it if it is new.
    async fn reach(&self, addr: NodeAddr, end: Instant) -> Result<Arc<Node>, CallError> {
        let node = self.transient(addr)?;
        node.reached(end).await?;
        Ok(node)
    }

    fn transient(&self, addr: NodeAddr) -> Result<Arc<Node>, CallError> {
        let mut nodes = lock(&self.nodes);
        let full = nodes.len() >= MAX_NODES;
        if let Some(member) = nodes.get_mut(&addr) {
            member.transient_until = Some(Instant::now() + TRANSIENT_LIFETIME);
            return Ok(Arc::clone(&member.node));
        }
        if full {
            return Err(CallError::Unavailable(TOO_MANY_NODES.into()));
        }
        let (node, transient_until) =
            (Arc::new(self.connect(&addr)), Some(Instant::now() + TRANSIENT_LIFETIME));
        nodes.insert(addr, Member { node: Arc::clone(&node), transient_until });
        Ok(node)
    }

    fn connect(&self, addr: &NodeAddr) -> Node {
        // A redirection may be read in another runtime, which may end before the node is gone.
        let _in = self.runtime.enter();
        let outage_log = self.outage_log.of_node(addr.to_string());
        let config = self.config.of_node(addr);
        Node::supervised(addr.clone(), &config, &self.options, outage_log, &self.refresh_signal)
    }
}

fn unserved() -> CallError {
    CallError::Unavailable("no known node of the redis cluster serves the slot".into())
}

/// A MOVED, an ASK and a TRYAGAIN may follow each other.
const MAX_REPEATS: usize = 3;
/// Between two attempts while only some of the keys have migrated.
const MOVE_PAUSE: Duration = Duration::from_millis(10);
/// How long a node is kept that a redirection names and the map does not: it may be about to get its first slot.
const TRANSIENT_LIFETIME: Duration = Duration::from_secs(60);
/// More primaries than a cluster has in practice.
const MAX_NODES: usize = 1_000;
const TOO_MANY_NODES: &str = "the cluster has more than 1000 nodes, which is the maximum";
