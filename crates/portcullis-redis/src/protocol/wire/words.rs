//! The words of a call.

use std::sync::Arc;

use bytes::Bytes;

use super::{Replay, Words};

/// The keys and the arguments of a call. Calls that make equal decisions may share them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallWords {
    keys: Words,
    args: Words,
    replay: Option<Replay>,
}

impl CallWords {
    pub(crate) fn new(keys: Words, args: Words) -> Arc<Self> {
        Self::of_decision(keys, args, None)
    }

    /// The words of a decision. The script may make those with a replay several times.
    pub(crate) fn of_decision(keys: Words, args: Words, replay: Option<Replay>) -> Arc<Self> {
        Arc::new(Self { keys, args, replay })
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
