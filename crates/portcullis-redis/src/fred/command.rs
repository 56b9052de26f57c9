//! The commands that are sent through the client.

use std::time::Duration;

use ::fred::types::config::Options;
use ::fred::types::{ClusterHash, CustomCommand};
use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::transport::Call;

/// A command and its deadline.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(super) name: &'static str,
    /// The slot of its keys; `None` for any server.
    pub(super) slot: Option<u16>,
    /// Of a script: its SHA-1, the number of keys, the keys, then the arguments.
    pub(super) words: Vec<Bytes>,
    pub(super) keys: usize,
    /// The load of a decision that may share a call with others.
    pub(super) load: Option<u32>,
    /// Whether it is for one node of a cluster.
    pub(super) by_slot: bool,
    /// Whether to send `ASKING` before the command, because its slot is still migrating to the server.
    pub(super) asking: bool,
    /// Whether a reply proves that the server accepts writes.
    pub(super) wrote: fn(&Value) -> bool,
    pub(crate) deadline: Duration,
    pub(crate) end: Instant,
}

impl Command {
    /// `EVALSHA` for a call that begins at `start`, `by_slot` for one node of a cluster. All keys must be in the slot.
    pub(crate) fn evalsha(call: Call<'_>, by_slot: bool, start: Instant, deadline: Duration) -> Self {
        let Call { script, slot, keys: names, args, load, end, .. } = call;
        let latest = start + deadline;
        let keys = names.len();
        let count = Bytes::from(keys.to_string());
        let words = [script.sha(), count].into_iter().chain(names.into_iter().map(Bytes::from)).chain(args);
        Self {
            name: "EVALSHA",
            slot,
            words: words.collect(),
            keys,
            load,
            by_slot,
            asking: false,
            wrote: script.wrote(),
            deadline,
            end: end.map_or(latest, |end| end.min(latest)),
        }
    }

    /// Reads the time, which is permitted to every user that can decide.
    pub(crate) fn time(deadline: Duration) -> Self {
        Self {
            name: "TIME",
            slot: None,
            words: Vec::new(),
            keys: 0,
            load: None,
            by_slot: false,
            asking: false,
            wrote: |_| false,
            deadline,
            end: Instant::now() + deadline,
        }
    }

    /// The same command for one attempt.
    pub(crate) fn attempt(&self, attempt: Attempt) -> Self {
        let load = self.load.filter(|_| attempt == Attempt::First);
        Self { load, asking: attempt == Attempt::Asking, ..self.clone() }
    }

    /// The command with other keys and another request, and the same further arguments.
    pub(super) fn with_request(&self, keys: &[Bytes], request: Bytes) -> Self {
        let (sha, count) = (self.words[0].clone(), Bytes::from(keys.len().to_string()));
        let words = [sha, count].into_iter().chain(keys.iter().cloned()).chain([request]);
        let words = words.chain(self.further_arguments().iter().cloned()).collect();
        Self { words, keys: keys.len(), ..*self }
    }

    /// The names of the keys.
    pub(super) fn key_names(&self) -> &[Bytes] {
        &self.words[FIRST_KEY..FIRST_KEY + self.keys]
    }

    /// The first argument.
    pub(super) fn request(&self) -> &Bytes {
        &self.words[FIRST_KEY + self.keys]
    }

    pub(super) fn further_arguments(&self) -> &[Bytes] {
        &self.words[FIRST_KEY + self.keys + 1..]
    }

    /// Turns `EVALSHA` into `EVAL`, which runs the same call from the source and loads the script.
    pub(crate) fn into_eval(mut self, script: &Script) -> Self {
        self.name = "EVAL";
        self.load = None;
        // In place of the SHA-1.
        self.words[0] = script.source();
        self
    }

    pub(super) fn custom(&self) -> CustomCommand {
        custom(self.name, self.slot)
    }
}

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Together with others, if it may be.
    First,
    /// By itself: a node that serves a part of a slot could run it, but not all that it would share a call with.
    Repeated,
    /// By itself after `ASKING`, because its slot is still migrating to the server.
    Asking,
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

/// The position of the first key among the words of a script.
const FIRST_KEY: usize = 2;
