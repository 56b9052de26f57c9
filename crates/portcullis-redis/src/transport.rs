//! What the store and its connections have in common.

mod error;
mod options;

use std::fmt;

pub use self::error::ConnectError;
pub(crate) use self::error::{CallError, is_reply};
pub(crate) use self::options::Options;

/// The key that a call is counted under, and a function that tells whether a waiting call is no longer needed.
#[derive(Clone, Copy)]
pub(crate) struct QueueKey<'a> {
    /// The fingerprint of the narrowest key of a decision; `None` where all keys are shared.
    pub(crate) key: Option<u128>,
    pub(crate) is_denied: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> QueueKey<'a> {
    /// Counts a call under `key`. While the call waits, `is_denied` is evaluated whenever a call of the same key was denied. If it
    /// returns true, the waiting call fails as overloaded.
    pub(crate) fn new(key: Option<u128>, is_denied: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { key, is_denied }
    }

    /// Counts a call under no key.
    pub(crate) fn none() -> QueueKey<'static> {
        QueueKey { key: None, is_denied: &|| false }
    }
}

impl fmt::Debug for QueueKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueKey").field("shared", &self.key.is_none()).finish_non_exhaustive()
    }
}
