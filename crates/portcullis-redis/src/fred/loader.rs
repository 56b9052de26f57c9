//! Loads scripts on the servers that lack them: once, however many calls miss them.
//!
//! A server that refuses `SCRIPT LOAD` gets the source by `EVAL`, from each call that misses the script: it is a call with its own charge.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::fred::clients::Client;
use ::fred::error::ErrorKind;
use ::fred::interfaces::{ClientLike, ClusterInterface};
use ::fred::types::Value as RawValue;
use ::fred::types::config::{Options, Server};
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::command::{command_options, custom};
use super::error::call_error;
use super::live::Live;
use crate::lock::lock;
use crate::protocol::script::{Script, Sha};
use crate::stats::StoreStats;
use crate::transport::CallError;

/// Loads scripts, one at a time.
#[derive(Debug)]
pub(crate) struct Loader {
    /// By SHA-1, when each script was last loaded.
    loaded: Arc<Mutex<HashMap<Sha, Instant>>>,
    refusals: Arc<Refusals>,
    timeout: Duration,
    stats: Arc<StoreStats>,
}

impl Loader {
    /// Makes a loader for calls with this deadline, which a load gets as well, and at least a second: it helps the next call.
    pub(crate) fn new(deadline: Duration, stats: Arc<StoreStats>) -> Self {
        let timeout = deadline.max(SHORTEST_TIMEOUT);
        Self { loaded: Arc::default(), refusals: Arc::default(), timeout, stats }
    }

    /// Loads a script on every primary, unless it was loaded after `missed`, the start of the call that missed it. Returns the
    /// refusal, if the server of the slot refuses `SCRIPT LOAD`. It is not asked again on the same connection.
    ///
    /// # Cancel safety
    /// A load continues when the caller goes away, so that other callers that wait for it need no second one.
    pub(crate) async fn load(
        &self,
        live: &Live,
        script: &Script,
        missed: Instant,
        slot: Option<u16>,
    ) -> Result<Option<CallError>, CallError> {
        if let Some(refusal) = self.refusals.of_slot(live, slot) {
            return Ok(Some(refusal));
        }
        let mut loaded = Arc::clone(&self.loaded).lock_owned().await;
        // The load that this one waited for may have been refused.
        if let Some(refusal) = self.refusals.of_slot(live, slot) {
            return Ok(Some(refusal));
        }
        let sha = script.sha;
        if loaded.get(&sha).is_some_and(|at| *at > missed) {
            return Ok(None);
        }
        let (to, script, refusals) = (live.clone(), script.clone(), Arc::clone(&self.refusals));
        let (timeout, stats) = (self.timeout, Arc::clone(&self.stats));
        let task = tokio::spawn(async move {
            if load_everywhere(&to, &script, &refusals, (timeout, &stats)).await? {
                loaded.insert(sha, Instant::now());
            }
            Ok::<_, CallError>(())
        });
        let result = task.await.unwrap_or_else(|error| Err(CallError::Unavailable(error.to_string().into())));
        // If the server of the slot has refused, the failure of another one does not matter.
        self.refusals.of_slot(live, slot).map_or_else(|| result.map(|()| None), |refusal| Ok(Some(refusal)))
    }

    /// Loads a script that uses no keys on every primary, or runs it by `EVAL` where that is refused. Returns the refusal, if any.
    pub(crate) async fn load_or_run(
        &self,
        live: &Live,
        script: &Script,
    ) -> Result<Option<CallError>, CallError> {
        self.load(live, script, Instant::now(), None).await?;
        let mut refused = None;
        for Refusal { server, error, .. } in self.refusals.on(live) {
            let sent = Instant::now();
            let words = vec![script.source.clone(), "0".into()];
            match send_to(&live.client, server, "EVAL", words, self.timeout).await {
                Err(eval) if eval.refuses_command() => {
                    self.ask_again(sent);
                    return Err(CallError::neither(error, eval));
                }
                result => result?,
            }
            refused = Some(error);
        }
        Ok(refused)
    }

    /// Forgets the refusals from before `sent`, when an `EVAL` was sent that is refused as well: either may be permitted next.
    pub(crate) fn ask_again(&self, sent: Instant) {
        lock(&self.refusals.0).retain(|refusal| refusal.at > sent);
    }
}

/// The servers that refuse `SCRIPT LOAD`: the only one, or primaries of a cluster behind a client of the user.
#[derive(Debug, Default)]
struct Refusals(std::sync::Mutex<Vec<Refusal>>);

#[derive(Clone, Debug)]
struct Refusal {
    /// `None` for the only server.
    server: Option<Server>,
    at: Instant,
    error: CallError,
}

impl Refusals {
    /// The refusals that hold on a connection. A connection that was made later asks again.
    fn on(&self, live: &Live) -> Vec<Refusal> {
        let created = live.liveness.created;
        lock(&self.0).iter().filter(|refusal| refusal.at >= created).cloned().collect()
    }

    /// The refusal of the server that serves a slot.
    fn of_slot(&self, live: &Live, slot: Option<u16>) -> Option<CallError> {
        let refusals = self.on(live);
        if refusals.is_empty() {
            return None;
        }
        let cluster = live.client.cached_cluster_state();
        let server = cluster.and_then(|cluster| cluster.get_server(slot?).cloned());
        refusals.into_iter().find(|refusal| refusal.server == server).map(|refusal| refusal.error)
    }

    /// Records the result of a load: the refusal, or `None` if it succeeded.
    fn record(&self, server: Option<Server>, refusal: Option<CallError>) {
        let mut refusals = lock(&self.0);
        refusals.retain(|known| known.server != server);
        refusals.extend(refusal.map(|error| Refusal { server, at: Instant::now(), error }));
    }
}

/// Sends `SCRIPT LOAD` to the server, in a cluster to all primaries at once, except where it was refused. Returns whether a
/// server has loaded the script. Does not use fred's `script_load_cluster`, which blocks all other commands and has no timeout.
async fn load_everywhere(
    live: &Live,
    script: &Script,
    refusals: &Refusals,
    (timeout, stats): (Duration, &StoreStats),
) -> Result<bool, CallError> {
    let primaries: Vec<Option<Server>> = match live.client.cached_cluster_state() {
        Some(cluster) => cluster.unique_primary_nodes().into_iter().map(Some).collect(),
        None => vec![None],
    };
    // The list stays as short as the cluster is, however often its primaries change.
    lock(&refusals.0).retain(|refusal| primaries.contains(&refusal.server));
    let refused = refusals.on(live);
    let mut loads = JoinSet::new();
    let is_asked = |primary: &Option<Server>| refused.iter().all(|refusal| refusal.server != *primary);
    for primary in primaries.into_iter().filter(is_asked) {
        let (client, words) = (live.client.clone(), vec!["LOAD".into(), script.source.clone()]);
        loads.spawn(async move {
            let result = send_to(&client, primary.clone(), "SCRIPT", words, timeout).await;
            (primary, result)
        });
    }
    let (mut is_loaded, mut failure) = (false, None);
    while let Some(load) = loads.join_next().await {
        let (primary, result) = load.map_err(|error| CallError::Unavailable(error.to_string().into()))?;
        match result {
            Err(error) if error.refuses_command() => refusals.record(primary, Some(error)),
            Err(error) => failure = Some(error),
            Ok(()) => {
                refusals.record(primary, None);
                stats.scripts_loaded.fetch_add(1, Ordering::Relaxed);
                is_loaded = true;
            }
        }
    }
    failure.map_or(Ok(is_loaded), Err)
}

/// Sends a command to the server, in a cluster to one of the primaries.
async fn send_to(
    client: &Client,
    primary: Option<Server>,
    name: &'static str,
    words: Vec<Bytes>,
    timeout: Duration,
) -> Result<(), CallError> {
    let options = Options { cluster_node: primary, ..command_options(timeout) };
    let reply = client.with_options(&options).custom::<RawValue, Bytes>(custom(name, None), words).await;
    reply.map(drop).map_err(|error| match error.kind() {
        ErrorKind::Timeout => CallError::NotLoaded(timeout),
        _ => call_error(&error, false).before_call(),
    })
}

const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);
