//! The commands that are sent through the client.

use std::time::Duration;

use ::fred::types::config::Options;
use ::fred::types::{ClusterHash, CustomCommand};
use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::script::Script;
use crate::protocol::value::Value;

/// A command and its deadline.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(super) name: &'static str,
    /// The slot of its keys; `None` for any server.
    pub(super) slot: Option<u16>,
    pub(super) words: Vec<Bytes>,
    /// Whether to send `ASKING` before the command, because its slot is still migrating to the server.
    pub(super) asking: bool,
    /// Whether a reply proves that the server accepts writes.
    pub(super) wrote: fn(&Value) -> bool,
    pub(crate) deadline: Duration,
    pub(crate) end: Instant,
}

impl Command {
    /// `EVALSHA` for a call that begins at `start`. All keys must be in the slot.
    pub(crate) fn evalsha(
        script: &Script,
        slot: Option<u16>,
        keys: Vec<String>,
        args: Vec<Bytes>,
        start: Instant,
        deadline: Duration,
    ) -> Self {
        let count = Bytes::from(keys.len().to_string());
        let words = [script.sha(), count].into_iter().chain(keys.into_iter().map(Bytes::from)).chain(args);
        Self {
            name: "EVALSHA",
            slot,
            words: words.collect(),
            asking: false,
            wrote: script.wrote(),
            deadline,
            end: start + deadline,
        }
    }

    /// Reads the time, which is permitted to every user that can decide.
    pub(crate) fn time(deadline: Duration) -> Self {
        let end = Instant::now() + deadline;
        Self { name: "TIME", slot: None, words: Vec::new(), asking: false, wrote: |_| false, deadline, end }
    }

    /// The same command for one attempt; `asking` tells whether to send `ASKING` before it.
    pub(crate) fn attempt(&self, asking: bool) -> Self {
        Self { asking, ..self.clone() }
    }

    /// Turns `EVALSHA` into `EVAL`, which runs the same call from the source and loads the script.
    pub(crate) fn into_eval(mut self, script: &Script) -> Self {
        self.name = "EVAL";
        // In place of the SHA-1.
        self.words[0] = script.source();
        self
    }

    pub(super) fn custom(&self) -> CustomCommand {
        custom(self.name, self.slot)
    }
}

/// The client's form of a command, without its words.
pub(super) fn custom(name: &'static str, slot: Option<u16>) -> CustomCommand {
    CustomCommand::new_static(name, slot.map_or(ClusterHash::Random, ClusterHash::Custom), false)
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
