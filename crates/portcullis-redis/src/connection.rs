//! The connection to the server: it calls scripts, and nothing else.
//!
//! What a caller may rely on:
//! - A call ends at its deadline, and at once while nobody would answer it: without a connection, and while the breaker of
//!   the connection is open, which a call without a reply opens and any answer closes.
//! - A script is run at most once per call. Where that cannot be known the error says so
//!   ([`CallError::fate_unknown`]). What certainly did nothing, because a server has sent it elsewhere or has lost the
//!   script, is repeated within the same deadline.
//! - At most 1 024 calls are in flight on a connection, and at most 1/16 of that for one key. A call whose caller goes away
//!   before it has a permit has sent nothing.
//! - What is not sent because of these bounds is an overload, and so is a call that gets no reply in time while others are
//!   answered. Only while nobody is answered is it an outage.
//! - A script that a server has lost (restart, failover, `SCRIPT FLUSH`) is loaded again by the first call
//!   that misses it, on that server, once for all calls that wait for it.
//! - In a cluster every primary has a connection of its own, and what is down is only the slots of one that is.
//! - The connection is renewed for ever, soon after the server is back. One line is logged when it goes down and one when it
//!   is up again, in a cluster for each node.

mod address;
mod breaker;
mod client;
mod cluster;
mod error;
mod in_flight;
mod jitter;
mod link;
mod liveness;
mod node;
mod open;
mod options;
mod outage_log;
mod script;
mod survey;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fred::interfaces::ClientLike as _;
use fred::types::Value;
use fred::util::redis_keyslot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::cluster::Cluster;
use self::link::Command;
use self::node::{Call, Node};
use self::outage_log::OutageLog;

pub(crate) use self::error::CallError;
pub use self::error::ConnectError;
pub(crate) use self::in_flight::QueueKey;
pub(crate) use self::options::Options;
pub(crate) use self::script::Script;

/// A connection to Redis, Valkey, a cluster of them, or what a sentinel points to. Clones share it; its
/// tasks end with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: String,
    deadline: Duration,
    route: Route,
    outage_log: Arc<OutageLog>,
    /// Dropped with the last connection, it aborts the tasks of the cluster. Those of a node end with the node.
    tasks: Mutex<JoinSet<()>>,
}

/// Where calls go.
#[derive(Debug)]
enum Route {
    /// To one server, or to a client of the user, which finds the way in a cluster by itself.
    One(Arc<Node>),
    /// To the node that has the slot.
    Cluster(Arc<Cluster>),
}

impl Connection {
    /// Runs a script that no caller asked for, or whose callers are not told apart.
    ///
    /// # Errors
    /// As [`call_for`](Self::call_for).
    ///
    /// # Cancel safety
    /// As there.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, CallError> {
        self.call_for(QueueKey::none(), script, keys, args).await
    }

    /// Runs a script. In a cluster all keys must be in one slot.
    ///
    /// # Errors
    /// After the deadline, or at once while nobody would answer or while the key has too many calls under way; see
    /// [`CallError`].
    ///
    /// # Cancel safety
    /// A call that is dropped may still run.
    pub(crate) async fn call_for(
        &self,
        queue: QueueKey<'_>,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, CallError> {
        let (start, deadline) = (Instant::now(), self.0.deadline);
        let slot = keys.first().map(|key| redis_keyslot(key.as_bytes()));
        let (custom, words) = script.evalsha(slot, keys, args);
        let command =
            Command { custom, words, asking: false, wrote: script.wrote(), deadline, end: start + deadline };
        let call = Call { script, command, start, slot, queue };
        match &self.0.route {
            Route::One(node) => node.call(&call, false).await,
            Route::Cluster(cluster) => cluster.call(&call).await,
        }
    }

    /// Has the calls that wait under a key ask whether they are denied. `slot` is where they go.
    pub(crate) fn look_again(&self, slot: Option<u16>, key: u128) {
        match (&self.0.route, slot) {
            (Route::One(node), _) => node.look_again(key),
            (Route::Cluster(cluster), Some(slot)) => cluster.look_again(slot, key),
            // Without a slot a call goes to any node, and no key waits for it.
            (Route::Cluster(_), None) => {}
        }
    }

    /// Notes what came of a call, so that a right that the user has lost is told in the log.
    pub(crate) fn note(&self, result: &Result<Value, CallError>) {
        match result {
            Ok(_) => self.0.outage_log.served(),
            Err(CallError::Denied(reply)) => self.0.outage_log.denied(reply),
            Err(_) => {}
        }
    }

    /// Loads a script on every primary that is there, so that no call has to.
    ///
    /// # Errors
    /// When none is there, or when a server refuses.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), CallError> {
        let mut loads = JoinSet::new();
        for node in self.nodes() {
            let script = script.clone();
            loads.spawn(async move { node.load(&script, Instant::now()).await });
        }
        let mut result = Err(CallError::Unavailable("no node is known".into()));
        for load in loads.join_all().await {
            match load {
                Ok(()) => result = Ok(()),
                Err(error @ CallError::Unavailable(_)) => result = result.map_err(|_| error),
                Err(error) => return Err(error),
            }
        }
        result
    }

    /// Why a call about a slot would be refused now, if it would; in a cluster without a slot, if all nodes refuse. It
    /// allocates nothing and waits for nobody.
    #[must_use]
    pub(crate) fn rejects_now(&self, slot: Option<u16>) -> Option<CallError> {
        match &self.0.route {
            Route::One(node) => node.shut(),
            Route::Cluster(cluster) => cluster.shut(slot),
        }
    }

    /// For how long nobody has been answered about a slot: since the connection was lost, since the first call without a
    /// reply, or since the server began to refuse everybody. `None` while somebody is answered.
    #[must_use]
    pub(crate) fn outage(&self, slot: Option<u16>) -> Option<Duration> {
        match &self.0.route {
            Route::One(node) => node.outage(),
            Route::Cluster(cluster) => cluster.outage(slot),
        }
    }

    /// How long a call takes at the most.
    #[must_use]
    pub(crate) fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// Whether the slot of a key matters to [`rejects_now`](Self::rejects_now) and [`outage`](Self::outage).
    #[must_use]
    pub(crate) fn is_routed(&self) -> bool {
        matches!(self.0.route, Route::Cluster(_))
    }

    /// Whether there is a connection now, in a cluster to one of its primaries at least.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.nodes().iter().any(|node| node.live().is_ok())
    }

    /// Whether keys are spread over the slots of a cluster.
    #[must_use]
    pub(crate) fn is_cluster(&self) -> bool {
        match &self.0.route {
            // A client of the user may be one of a cluster, and finds the way by itself.
            Route::One(node) => node.live().is_ok_and(|live| live.client.is_clustered()),
            Route::Cluster(_) => true,
        }
    }

    /// The servers, of a cluster the primaries.
    fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.0.route {
            Route::One(node) => vec![Arc::clone(node)],
            Route::Cluster(cluster) => cluster.primaries(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
