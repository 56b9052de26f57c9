//! Scripts, and the commands that run them.

use std::time::Duration;

use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value};

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
    pub(crate) fn wrote(&self) -> fn(&Value) -> bool {
        self.wrote
    }

    /// Returns the `EVALSHA` command for a call and its arguments. All keys must share the slot.
    pub(crate) fn evalsha(
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

    /// Turns an `EVALSHA` command into `EVAL`, which runs the same call from the source and loads the script.
    pub(crate) fn eval(&self, evalsha: &CustomCommand, mut args: Vec<Value>) -> (CustomCommand, Vec<Value>) {
        // In place of the SHA-1.
        args[0] = self.source.clone();
        (CustomCommand::new_static("EVAL", evalsha.cluster_hash.clone(), false), args)
    }

    /// The source.
    pub(crate) fn source(&self) -> Value {
        self.source.clone()
    }

    /// The SHA-1 in hexadecimal.
    pub(crate) fn sha(&self) -> String {
        self.sha.as_string().unwrap_or_default()
    }
}

/// fred's options for one command: written at most once, never queued without a connection, dropped if still queued after
/// `timeout`.
pub(crate) fn command_options(timeout: Duration) -> Options {
    Options { max_attempts: Some(1), timeout: Some(timeout), fail_fast: true, ..Options::default() }
}

/// For callers with their own deadline: fred treats zero as no timeout.
pub(crate) fn untimed() -> Options {
    command_options(Duration::ZERO)
}
