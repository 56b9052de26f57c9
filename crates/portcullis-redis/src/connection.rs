//! The connection to the server. It runs scripts and nothing else. The page of the crate has its guarantees.
//!
//! A call that certainly had no effect, because the server redirected it or has lost the script, is repeated within the same deadline. A
//! call whose fate is unknown is not: the error [reports it](CallError::fate_unknown).

mod open;
mod renewal;
mod server_info;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::renewal::Renewal;
use crate::cluster::Cluster;
use crate::cluster::node::{Node, RoutedCall};
use crate::fred::command::{Attempt, Command};
use crate::protocol::script::Script;
use crate::protocol::slot::slot_of;
use crate::protocol::value::Value;
use crate::protocol::wire::CallWords;
use crate::resilience::outage_log::OutageLog;
use crate::stats::{Gauges, StoreStats};
use crate::transport::{Availability, Call, CallError, QueueKey, Transport};

/// A connection to a server, a cluster, or the primary that a sentinel names. Its tasks end when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: String,
    deadline: Duration,
    route: Route,
    outage_log: Arc<OutageLog>,
    stats: Arc<StoreStats>,
    runtime: Handle,
    renewal: Renewal,
    /// Aborts the tasks of the cluster when the last connection is dropped. The tasks of a node end with the node.
    tasks: Mutex<JoinSet<()>>,
}

/// Where calls go.
#[derive(Debug)]
enum Route {
    /// To one server, or to a client of the user, which routes in a cluster by itself.
    One(Arc<Node>),
    /// To the node that serves the slot.
    Cluster(Arc<Cluster>),
    /// Nowhere: each call has this reply at once.
    #[cfg(feature = "recorded")]
    Recorded(Value),
}

impl Connection {
    /// Runs a script that is counted under no key. In a cluster all keys must be in one slot.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Bytes>,
    ) -> Result<Value, CallError> {
        let slot = keys.first().map(|key| slot_of(key.as_bytes()));
        let (keys, args) = (keys.into_iter().map(Bytes::from).collect(), args.into());
        self.run(Call::new(script, slot, CallWords::new(keys, args))).await
    }

    /// Reads a string up to the byte `last`, counted from 0, by a command of its own.
    pub(crate) async fn read_range(&self, key: &str, last: usize) -> Result<Value, CallError> {
        let slot = slot_of(key.as_bytes());
        let by_slot = matches!(self.0.route, Route::Cluster(_));
        let key = Bytes::copy_from_slice(key.as_bytes());
        let command = Command::getrange(key, last, slot, by_slot, self.0.deadline);
        // No server replies to the command that it lacks a script.
        let script = Script::new("");
        let start = Instant::now();
        let call = RoutedCall { script: &script, command, start, slot: Some(slot), queue: QueueKey::none() };
        self.routed(call).await
    }

    /// Loads a script that uses no keys on every connected primary, so that no call has to. A server that refuses `SCRIPT LOAD`
    /// runs it by `EVAL` instead.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), CallError> {
        let mut loads = JoinSet::new();
        for node in self.nodes() {
            let script = script.clone();
            loads.spawn(async move { node.load(&script).await });
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

    /// Every call has this reply at once, and sends nothing.
    #[cfg(feature = "recorded")]
    pub(crate) fn recorded(reply: Value) -> Self {
        let (server, deadline) = ("memory".to_owned(), Duration::from_secs(1));
        let (outage_log, route) = (OutageLog::new(server.clone(), None), Route::Recorded(reply));
        let (stats, runtime, mut tasks) = (Arc::default(), Handle::current(), JoinSet::new());
        let renewal = Renewal::new(None, &mut tasks);
        let tasks = Mutex::new(tasks);
        Self(Arc::new(Shared { server, deadline, route, outage_log, stats, runtime, renewal, tasks }))
    }

    /// Whether the slot of a call may matter: in a cluster.
    pub(crate) fn has_slots(&self) -> bool {
        self.ask(|node| node.links.iter().any(|link| link.is_clustered()), |_| true, false)
    }

    /// What all connections count.
    pub(crate) fn stats(&self) -> &StoreStats {
        &self.0.stats
    }

    /// What the connections do now, in a cluster those to all of its nodes.
    pub(crate) fn gauges(&self) -> Gauges {
        let nodes = self.ask(|node| vec![Arc::clone(node)], |cluster| cluster.members(), Vec::new());
        let mut gauges = Gauges::default();
        nodes.iter().flat_map(|node| &node.links).for_each(|link| link.add_to(&mut gauges));
        gauges
    }

    /// The servers; in a cluster the primaries.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.ask(|node| vec![Arc::clone(node)], |cluster| cluster.primaries(), Vec::new())
    }

    /// What the server or the cluster knows; `recorded` without either.
    #[cfg_attr(
        not(feature = "recorded"),
        expect(clippy::only_used_in_recursion, reason = "there is no such connection")
    )]
    fn ask<T>(
        &self,
        of_node: impl FnOnce(&Arc<Node>) -> T,
        of_cluster: impl FnOnce(&Arc<Cluster>) -> T,
        recorded: T,
    ) -> T {
        if let Some(successor) = self.successor() {
            return successor.ask(of_node, of_cluster, recorded);
        }
        match &self.0.route {
            Route::One(node) => of_node(node),
            Route::Cluster(cluster) => of_cluster(cluster),
            #[cfg(feature = "recorded")]
            Route::Recorded(_) => recorded,
        }
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "a block uses what it captures in place, a function has a copy of it"
    )]
    fn routed(&self, call: RoutedCall<'_>) -> impl Future<Output = Result<Value, CallError>> + Send {
        async move {
            match self.successor() {
                None => self.run_here(&call).await,
                // Boxed, because it happens after the end of a runtime only.
                Some(successor) => Box::pin(successor.run_when_linked(call)).await,
            }
        }
    }

    /// Runs a call on this connection, whether its runtime has ended or not.
    async fn run_here(&self, call: &RoutedCall<'_>) -> Result<Value, CallError> {
        match &self.0.route {
            Route::One(node) => node.call(call, Attempt::First).await,
            // Boxed, because it takes more memory than a call to one server.
            Route::Cluster(cluster) => Box::pin(cluster.call(call)).await,
            #[cfg(feature = "recorded")]
            Route::Recorded(reply) => {
                // The encoded call is part of what is measured.
                std::hint::black_box(call);
                Ok(reply.clone())
            }
        }
    }
}

impl Transport for Connection {
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Value, CallError>> + Send {
        let Call { script, slot, queue, .. } = call;
        let (start, deadline) = (Instant::now(), self.0.deadline);
        let by_slot = matches!(self.0.route, Route::Cluster(_));
        let command = Command::evalsha(call, by_slot, start, deadline);
        self.routed(RoutedCall { script, command, start, slot, queue })
    }

    fn deadline(&self) -> Duration {
        self.0.deadline
    }

    fn availability(&self, slot: Option<u16>) -> Availability {
        let recorded = Availability { rejection: None, outage: None, is_connected: true };
        self.ask(|node| node.availability(), |cluster| cluster.availability(slot), recorded)
    }

    fn replied_since(&self, slot: Option<u16>, start: Instant) -> bool {
        self.ask(|node| node.replied_since(start), |cluster| cluster.replied_since(slot, start), true)
    }

    fn is_cluster(&self) -> bool {
        // A client of the user may be a cluster client, which routes by itself.
        self.ask(|node| node.live().is_ok_and(|live| live.is_clustered()), |_| true, false)
    }

    fn recheck_denied(&self, slot: u16, key: u128) {
        self.ask(|node| node.recheck_denied(key), |cluster| cluster.recheck_denied(slot, key), ());
    }

    fn note(&self, result: &Result<Value, CallError>) {
        match result {
            Ok(_) => self.0.outage_log.served(),
            Err(CallError::Denied(reply)) => self.0.outage_log.denied(reply),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
