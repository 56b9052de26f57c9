//! What the store needs of a connection.

mod error;
mod options;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::protocol::wire::CallWords;

pub use self::error::ConnectError;
pub(crate) use self::error::{CallError, is_reply};
pub(crate) use self::options::Options;

/// A connection to a server or a cluster: it runs scripts and nothing else.
pub(crate) trait Transport {
    /// Runs a script, at most once.
    ///
    /// A call with a [load](Call::load) may leave together with others, and returns the reply to its own decision.
    ///
    /// # Errors
    /// At the deadline or [beyond it](crate::resilience::overtime), or at once while no reply can be expected or while the key has too
    /// many calls in flight or waiting; see [`CallError`].
    ///
    /// # Cancel safety
    /// A call that is dropped may still run.
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Value, CallError>> + Send;

    /// The longest time that a call takes, unless it finds out whether there is an outage.
    fn deadline(&self) -> Duration;

    /// What a call for a slot would meet now; without a slot, a call that any node may take. Does not allocate and does not wait.
    fn availability(&self, slot: Option<u16>) -> Availability;

    /// Whether a reply has come since an instant, in time or not, from the node of a slot or, without a slot, from any node.
    fn replied_since(&self, slot: Option<u16>, start: Instant) -> bool;

    /// Whether keys are spread over the slots of a cluster.
    fn is_cluster(&self) -> bool;

    /// Makes the calls that wait under a key check whether they are denied. `slot` is the slot of those calls.
    fn recheck_denied(&self, slot: u16, key: u128);

    /// Records the result of a call, so that a permission that the user has lost is logged.
    fn note(&self, result: &Result<Value, CallError>);
}

/// A run of a script.
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// The slot of all keys; `None` without keys.
    pub(crate) slot: Option<u16>,
    pub(crate) words: Arc<CallWords>,
    pub(crate) queue: QueueKey<'a>,
    /// If the call makes one decision and may make others as well: the time for which the decision blocks the server, in the unit
    /// of [`MAX_LOAD`](crate::protocol::wire::MAX_LOAD). All such calls of a connection run the same script.
    pub(crate) load: Option<u32>,
    /// The number of decisions that the call makes: 0 or 1.
    pub(crate) decisions: u32,
    /// When the call ends; `None` if it has the whole deadline of the connection. It is never later than that.
    pub(crate) end: Option<Instant>,
}

impl<'a> Call<'a> {
    /// A call that makes no decision, is counted under no key and has the whole deadline.
    pub(crate) fn new(script: &'a Script, slot: Option<u16>, words: Arc<CallWords>) -> Self {
        Self { script, slot, words, queue: QueueKey::none(), load: None, decisions: 0, end: None }
    }
}

/// What a call would meet now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Availability {
    /// Why a call would be rejected; `None` if it would be sent.
    pub(crate) rejection: Option<CallError>,
    /// For how long no call has been answered; `None` while calls are answered. An open breaker is an outage even while a probe is due.
    pub(crate) outage: Option<Duration>,
    /// Whether there is a connection, whether or not calls on it are answered.
    pub(crate) is_connected: bool,
}

impl Availability {
    /// What a call meets that may take either of two ways.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            rejection: self.rejection.and(other.rejection),
            outage: self.outage.zip(other.outage).map(|(one, other)| one.min(other)),
            is_connected: self.is_connected || other.is_connected,
        }
    }

    /// Whether a call would be rejected.
    pub(crate) fn rejects(&self) -> bool {
        self.rejection.is_some()
    }
}

/// The key that a call is counted under, and a function that tells whether a waiting call is no longer needed.
#[derive(Clone, Copy)]
pub(crate) struct QueueKey<'a> {
    /// The fingerprint of the narrowest key of a decision; `None` where all keys are shared.
    pub(crate) key: Option<u128>,
    pub(crate) is_denied: &'a (dyn Fn() -> bool + Sync),
    /// Whether it may share the permit of an equal decision.
    pub(crate) may_join: bool,
}

impl<'a> QueueKey<'a> {
    /// Counts a call under `key`. It fails as overloaded if `is_denied` returns true when a call of the same key was denied.
    pub(crate) fn new(key: Option<u128>, is_denied: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { key, is_denied, may_join: false }
    }

    /// Counts a call under no key.
    pub(crate) fn none() -> QueueKey<'static> {
        QueueKey { key: None, is_denied: &|| false, may_join: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_of_two_ways_counts() {
        let way = |rejection: Option<CallError>, outage: Option<u64>, is_connected| Availability {
            rejection,
            outage: outage.map(Duration::from_secs),
            is_connected,
        };
        let (healthy, silent) = (way(None, None, true), way(Some(CallError::no_replies()), Some(2), true));
        let lost = way(Some(CallError::Overloaded), Some(5), false);
        for (one, other, either) in [
            (&healthy, &silent, &healthy),
            (&lost, &healthy, &healthy),
            (&lost, &silent, &silent),
            (&lost, &lost, &lost),
        ] {
            assert_eq!(one.clone().or(other.clone()), *either);
        }
    }
}
