//! Scripts, which are loaded once, however many calls miss them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::{Options, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::CallError;

/// A Lua script and the SHA-1 by which the server knows it. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    source: Value,
    sha: Value,
    wrote: fn(&Value) -> bool,
}

impl Script {
    /// Makes a script from its source.
    #[must_use]
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), sha: fred::util::sha1_hash(source).into(), wrote: |_| true }
    }

    /// Sets the function that tells from a reply whether the script has written to its keys. By default every reply counts as
    /// written.
    #[must_use]
    pub(crate) fn with_write_check(self, wrote: fn(&Value) -> bool) -> Self {
        Self { wrote, ..self }
    }

    /// The function that tells whether a reply proves that the server accepts writes.
    pub(super) fn wrote(&self) -> fn(&Value) -> bool {
        self.wrote
    }

    /// Returns the `EVALSHA` command for a call and its arguments. All keys must share the slot.
    pub(super) fn evalsha(
        &self,
        slot: Option<u16>,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> (CustomCommand, Vec<Value>) {
        let slot = slot.map_or(ClusterHash::Random, ClusterHash::Custom);
        let count = Value::from(keys.len().to_string());
        let words =
            [self.sha.clone(), count].into_iter().chain(keys.into_iter().map(Value::from)).chain(args);
        (CustomCommand::new_static("EVALSHA", slot, false), words.collect())
    }
}

/// Loads scripts, one at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Loader {
    /// By SHA-1, when each script was last loaded.
    loaded: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Loader {
    /// Loads a script on every primary, unless it was loaded after `missed`, the start of the call that missed it.
    ///
    /// # Cancel safety
    /// A load continues when the caller goes away, so that other callers that wait for it need no second one.
    pub(super) async fn load(
        &self,
        client: &Client,
        script: &Script,
        missed: Instant,
    ) -> Result<(), CallError> {
        let mut loaded = Arc::clone(&self.loaded).lock_owned().await;
        let sha = script.sha.as_string().unwrap_or_default();
        if loaded.get(&sha).is_some_and(|at| *at > missed) {
            return Ok(());
        }
        let (client, script) = (client.clone(), script.clone());
        let task = tokio::spawn(async move {
            load_everywhere(&client, &script).await?;
            loaded.insert(sha, Instant::now());
            Ok(())
        });
        task.await.unwrap_or_else(|error| Err(CallError::Unavailable(error.to_string().into())))
    }
}

/// Sends `SCRIPT LOAD` to the server, in a cluster to all primaries at once. Does not use fred's `script_load_cluster`, which
/// blocks all other commands and has no timeout.
async fn load_everywhere(client: &Client, script: &Script) -> Result<(), CallError> {
    let primaries: Vec<Option<Server>> = match client.cached_cluster_state() {
        Some(cluster) => cluster.unique_primary_nodes().into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut loads = JoinSet::new();
    for primary in primaries {
        let (client, source) = (client.clone(), script.source.clone());
        loads.spawn(async move {
            let options = Options { cluster_node: primary, ..command_options(LOAD_TIMEOUT) };
            let command = CustomCommand::new_static("SCRIPT", ClusterHash::Random, false);
            client.with_options(&options).custom::<Value, Value>(command, vec!["LOAD".into(), source]).await
        });
    }
    while let Some(load) = loads.join_next().await {
        let reply = load.map_err(|error| CallError::Unavailable(error.to_string().into()))?;
        reply.map_err(|error| CallError::from_fred(&error, false).before_call())?;
    }
    Ok(())
}

/// fred's options for one command: written at most once, never queued without a connection, dropped if still queued after
/// `timeout`.
pub(super) fn command_options(timeout: Duration) -> Options {
    Options { max_attempts: Some(1), timeout: Some(timeout), fail_fast: true, ..Options::default() }
}

/// For callers with their own deadline: fred treats zero as no timeout.
pub(super) fn untimed() -> Options {
    command_options(Duration::ZERO)
}

/// Longer than a deadline: a load that is too slow for one call still helps the next.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);
