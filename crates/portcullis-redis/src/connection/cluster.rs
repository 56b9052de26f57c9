//! A cluster: which node has which slot, and a link to each of them.
//!
//! fred's own client for clusters connects to all primaries or to none. Here each primary has links of its own, so that
//! one that is gone takes only its own slots along.

mod map;
mod place;
mod refresh;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use fred::types::Value;
use fred::types::config::{Config, ServerConfig};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::client::new_client;
use super::error::CallError;
use super::jitter::around;
use super::node::{Call, Node};
use super::options::Options;
use super::outage_log::OutageLog;

use self::map::View;
use self::place::{Place, Redirection};

/// The nodes of a cluster and the map of its slots.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The URL, its password masked.
    shown: String,
    config: Secretive<Config>,
    options: Options,
    outage_log: Arc<OutageLog>,
    seeds: Vec<Place>,
    view: RwLock<Arc<View>>,
    nodes: Mutex<HashMap<Place, Member>>,
    /// Told when the map is wrong, when part of it is down, and of every new connection.
    alarm: Arc<Notify>,
    /// How many maps were read.
    maps: watch::Sender<u64>,
    /// Why the last attempt to read the map failed.
    refusal: Mutex<Option<String>>,
    asked: AtomicUsize,
}

/// A node, and until when it stays although the map does not know it.
#[derive(Debug)]
struct Member {
    node: Arc<Node>,
    guest_until: Option<Instant>,
}

/// Keeps a password out of the debug form.
struct Secretive<T>(T);

impl<T> std::fmt::Debug for Secretive<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Cluster {
    /// Runs a script where its slot is, and follows it where it has gone.
    ///
    /// # Errors
    /// As [`Connection::call`](super::Connection::call).
    pub(super) async fn call(&self, call: &Call<'_>) -> Result<Value, CallError> {
        let end = call.command.end;
        let Some(slot) = call.slot else { return self.any()?.call(call, false).await };
        let (mut node, mut asking, mut moved) = (self.serving(slot)?, false, false);
        // Where it ends there has to be time left for another attempt.
        let pause = async || {
            let over = Instant::now() + around(MOVE_PAUSE);
            let is_in_time = over < end;
            if is_in_time {
                sleep_until(over).await;
            }
            is_in_time
        };
        // Each of these replies says that nothing was done.
        for _ in 0..MOST_REPEATS {
            let error = match node.call(call, asking).await {
                Err(error) if Instant::now() < end => error,
                result => return result,
            };
            asking = false;
            match error {
                CallError::Moving(ref words) => match Redirection::parse(words, &node.server.host) {
                    Some(Redirection::Moved(place)) => {
                        self.alarm.notify_one();
                        // Two nodes name each other, until the one has heard of the other.
                        if moved && !pause().await {
                            return Err(error);
                        }
                        moved = true;
                        node = self.reach(place, end).await?;
                    }
                    Some(Redirection::Ask(place)) => {
                        node = self.reach(place, end).await?;
                        asking = true;
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
        node.call(call, asking).await
    }

    /// Why a call would be refused now. It allocates nothing.
    pub(super) fn shut(&self, slot: Option<u16>) -> Option<CallError> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        match slot {
            Some(slot) => view.node(slot).map_or_else(|| Some(unserved()), |node| node.shut()),
            None => view.nodes().iter().all(|node| node.shut().is_some()).then(unserved),
        }
    }

    /// Has the waiting calls of a key ask whether they are denied, where its slot is.
    pub(super) fn look_again(&self, slot: u16, key: u128) {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = view.node(slot) {
            node.look_again(key);
        }
    }

    /// For how long nobody has been answered about a slot; `None` while somebody is.
    pub(super) fn outage(&self, slot: Option<u16>) -> Option<Duration> {
        let view = self.view();
        match slot {
            Some(slot) => view.node(slot).map_or_else(|| view.lacking(), |node| node.outage()),
            None => view.nodes().iter().map(|node| node.outage()).min().flatten(),
        }
    }

    /// The primaries that have slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        self.view().nodes().to_vec()
    }

    /// All nodes to which there are links, also those of which it is not known yet what they are.
    pub(super) fn members(&self) -> Vec<Arc<Node>> {
        self.locked().values().map(|member| Arc::clone(&member.node)).collect()
    }

    /// Whether a map was read.
    pub(super) fn is_known(&self) -> bool {
        *self.maps.borrow() > 0
    }

    /// Why the map could not be read when that was last tried.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<Place, Member>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self, slot: u16) -> Result<Arc<Node>, CallError> {
        self.view().node(slot).cloned().ok_or_else(unserved)
    }

    fn any(&self) -> Result<Arc<Node>, CallError> {
        let view = self.view();
        let open = view.nodes().iter().find(|node| node.shut().is_none());
        open.or(view.nodes().first()).cloned().ok_or_else(unserved)
    }

    /// Waits for a newer map, until `end`. Returns whether there is one.
    async fn renewed(&self, end: Instant) -> bool {
        let mut maps = self.maps.subscribe();
        maps.mark_unchanged();
        self.alarm.notify_one();
        timeout_at(end, maps.changed()).await.is_ok()
    }

    /// Finds the node that another has named, or connects to it.
    async fn reach(&self, place: Place, end: Instant) -> Result<Arc<Node>, CallError> {
        let node = self.guest(place)?;
        node.reached(end).await?;
        Ok(node)
    }

    fn guest(&self, place: Place) -> Result<Arc<Node>, CallError> {
        let mut nodes = self.locked();
        let full = nodes.len() >= MOST_NODES;
        if let Some(member) = nodes.get_mut(&place) {
            member.guest_until = Some(Instant::now() + VISIT);
            return Ok(Arc::clone(&member.node));
        }
        if full {
            return Err(CallError::Unavailable(TOO_MANY.into()));
        }
        let node = Arc::new(self.connect(&place));
        let member = Member { node: Arc::clone(&node), guest_until: Some(Instant::now() + VISIT) };
        nodes.insert(place, member);
        Ok(node)
    }

    fn connect(&self, place: &Place) -> Node {
        let outage_log = OutageLog::new(self.shown.clone(), Some(place.to_string()));
        let server = place.server();
        let mut config = self.config.0.clone();
        config.server = ServerConfig::Centralized { server: server.clone() };
        // A cluster has one.
        config.database = None;
        let options = self.options.clone();
        let make = move || new_client(&config, &options);
        Node::supervised(server, make, &self.options, outage_log, &self.alarm)
    }
}

fn unserved() -> CallError {
    CallError::Unavailable("no known node of the redis cluster serves the slot".into())
}

/// A move, an ASK and a slot that is not whole yet may follow each other.
const MOST_REPEATS: usize = 3;
/// Between two attempts at keys of which some have moved already.
const MOVE_PAUSE: Duration = Duration::from_millis(10);
/// How long a node stays that a redirection has named and the map does not: it may be about to get its first slot.
const VISIT: Duration = Duration::from_mins(1);
/// More primaries than a cluster can sensibly have.
const MOST_NODES: usize = 1_000;
const TOO_MANY: &str = "the cluster names more than 1000 nodes, which is more than are connected to";
