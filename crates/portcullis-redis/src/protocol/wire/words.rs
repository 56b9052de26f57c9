//! The words of a call.

use std::sync::Arc;

use bytes::Bytes;

use super::combined::quick_hash;
use super::{Replay, Words};

/// The keys and the arguments of a call. Calls that make equal decisions may share them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallWords {
    keys: Words,
    args: Words,
    replay: Option<Replay>,
    tag: u64,
}

impl CallWords {
    pub(crate) fn new(keys: Words, args: Words) -> Arc<Self> {
        Self::of_decision(keys, args, None)
    }

    /// The words of a decision. The script may make those with a replay several times.
    pub(crate) fn of_decision(keys: Words, args: Words, replay: Option<Replay>) -> Arc<Self> {
        let key = keys.first().filter(|_| replay.is_some());
        let tag = key.map_or(0, |key| quick_hash(key) | 1);
        Arc::new(Self { keys, args, replay, tag })
    }

    /// Equal for all decisions about a key that the script may make several times, and 0 for all other words.
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// The names of the keys.
    pub(crate) fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    pub(crate) fn args(&self) -> &[Bytes] {
        &self.args
    }

    /// What the decision is computed from if the script makes it several times; `None` for one that is never repeated.
    pub(crate) fn replay(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }
}
