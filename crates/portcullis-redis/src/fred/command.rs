//! The commands that are sent through the client.

use std::sync::Arc;
use std::time::Duration;

use ::fred::types::config::Options;
use ::fred::types::{ClusterHash, CustomCommand, Value as RawValue};
use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::script::{Script, Sha};
use crate::protocol::value::Value;
use crate::protocol::wire::{CallWords, Words};
use crate::transport::Call;

/// How a script is named.
#[derive(Clone, Debug)]
pub(super) enum Code {
    /// Copied, because all calls of a connection would count references to the same buffer.
    Sha(Sha),
    Source(Bytes),
}

/// A command and its deadline.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(super) name: &'static str,
    /// The slot of its keys; `None` for any server.
    pub(super) slot: Option<u16>,
    /// What runs; `None` for a command without a script, whose words are its arguments.
    pub(super) code: Option<Code>,
    pub(super) words: Arc<CallWords>,
    /// The load of a decision that may share a call with others.
    pub(super) load: Option<u32>,
    /// The number of decisions in it; `None` if it is not a call of the store.
    pub(super) decisions: Option<u32>,
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
        let Call { script, slot, words, load, decisions, end, .. } = call;
        let latest = start + deadline;
        Self {
            name: "EVALSHA",
            slot,
            code: Some(Code::Sha(script.sha)),
            words,
            load,
            decisions: Some(decisions),
            by_slot,
            asking: false,
            wrote: script.wrote,
            deadline,
            end: end.map_or(latest, |end| end.min(latest)),
        }
    }

    /// Reads the time, which is permitted to every user that can decide.
    pub(crate) fn time(deadline: Duration) -> Self {
        Self {
            name: "TIME",
            slot: None,
            code: None,
            words: Arc::default(),
            load: None,
            decisions: None,
            by_slot: false,
            asking: false,
            wrote: |_| false,
            deadline,
            end: Instant::now() + deadline,
        }
    }

    /// Reads the bytes of a string up to `last`, counted from 0.
    pub(crate) fn getrange(key: Bytes, last: usize, slot: u16, by_slot: bool, deadline: Duration) -> Self {
        let args = [key, Bytes::from_static(b"0"), Bytes::from(last.to_string())];
        let words = CallWords::new(Words::new(), args.into_iter().collect());
        let decisions = Some(0);
        Self { name: "GETRANGE", slot: Some(slot), words, decisions, by_slot, ..Self::time(deadline) }
    }

    /// The command for one attempt.
    pub(crate) fn attempt(&self, attempt: Attempt) -> Self {
        let load = self.load.filter(|_| attempt == Attempt::First);
        Self { load, asking: attempt == Attempt::Asking, ..self.clone() }
    }

    /// The command with other keys and another request, at the same instant.
    pub(super) fn with_request(&self, keys: &[Bytes], request: Bytes) -> Self {
        let args = std::iter::once(request).chain(self.instant().cloned()).collect();
        let words = CallWords::new(keys.into(), args);
        Self { code: self.code.clone(), words, ..*self }
    }

    /// The words after the name: of a script its SHA-1 or its source, the number of keys, the keys, then the arguments.
    pub(super) fn into_words(self) -> Vec<RawValue> {
        let (keys, args) = (&self.words.keys, &self.words.args);
        let code = match self.code {
            None => return args.iter().cloned().map(RawValue::Bytes).collect(),
            Some(Code::Sha(sha)) => Bytes::copy_from_slice(&sha),
            Some(Code::Source(source)) => source,
        };
        let count = match keys.len() {
            1 => Bytes::from_static(b"1"),
            count => Bytes::from(count.to_string()),
        };
        let mut words = Vec::with_capacity(2 + keys.len() + args.len());
        words.extend([code, count].map(RawValue::Bytes));
        words.extend(keys.iter().chain(args).cloned().map(RawValue::Bytes));
        words
    }

    /// The instant of a scenario.
    pub(super) fn instant(&self) -> Option<&Bytes> {
        self.words.args.get(1)
    }

    /// Turns `EVALSHA` into `EVAL`, which runs the same call from the source and loads the script.
    pub(crate) fn into_eval(mut self, script: &Script) -> Self {
        self.name = "EVAL";
        self.load = None;
        self.code = Some(Code::Source(script.source.clone()));
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

/// fred's options: written at most once, never queued without a connection, dropped if still queued after `timeout`.
pub(super) fn command_options(timeout: Duration) -> Options {
    Options { max_attempts: Some(1), timeout: Some(timeout), fail_fast: true, ..Options::default() }
}

/// For callers with their own deadline: fred treats zero as no timeout.
pub(super) fn untimed() -> Options {
    command_options(Duration::ZERO)
}
