//! The connection to the server: it calls scripts, and nothing else.
//!
//! What a caller may rely on:
//! - A call ends at its deadline, and at once while there is no connection.
//! - A script is run at most once per call. Where that cannot be known the error says so
//!   ([`CallError::fate_unknown`]).
//! - A script that the server has lost (restart, failover, `SCRIPT FLUSH`) is loaded again by the first call
//!   that misses it, on every primary, once for all calls that wait for it.
//! - The connection is renewed for ever, within a second of the server being back. One line is logged when
//!   it goes down and one when it is up again.

mod address;
mod error;
mod journal;
mod link;
mod open;
mod options;
mod pulse;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::interfaces::ClientLike;
use fred::types::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::journal::Journal;
use self::link::{Link, Live, State};
use self::script::{Loader, command_options};

pub(crate) use self::error::CallError;
pub use self::error::ConnectError;
pub(crate) use self::options::Options;
pub(crate) use self::script::Script;

/// A connection to Redis, Valkey, a cluster of them, or what a sentinel points to. Clones share it; its
/// tasks end with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: String,
    deadline: Duration,
    links: Vec<Link>,
    next: AtomicUsize,
    loader: Loader,
    journal: Arc<Journal>,
    /// Dropped with the last connection, it aborts the tasks that keep the links alive.
    _tasks: JoinSet<()>,
}

impl Connection {
    /// Runs a script. In a cluster all keys must be in one slot.
    ///
    /// # Errors
    /// After the deadline, or at once without a connection; see [`CallError`].
    ///
    /// # Cancel safety
    /// A call that is dropped may still run.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, CallError> {
        let start = Instant::now();
        let live = self.live()?;
        let writes = !keys.is_empty();
        let end = start + self.0.deadline;
        // A little later than fred's own timer, which alone can withdraw a command that is still queued.
        let result = timeout_at(end + GRACE, self.attempt_twice(&live, script, keys, args, start, end)).await;
        let result = result.unwrap_or(Err(CallError::TimedOut(self.0.deadline)));
        match &result {
            Err(CallError::TimedOut(_) | CallError::Overloaded) => live.pulse.silence(),
            Err(error) if error.is_read_only() => live.pulse.read_only(),
            Ok(_) if writes => live.pulse.success(),
            Err(CallError::Unavailable(_) | CallError::Lost(_)) => {}
            _ => live.pulse.reply(),
        }
        result
    }

    /// Loads a script on every primary, so that no call has to.
    ///
    /// # Errors
    /// Without a connection, or when a server refuses.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), CallError> {
        let live = self.live()?;
        self.0.loader.load(&live.client, script, Instant::now()).await
    }

    /// Whether there is a connection now.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.live().is_ok()
    }

    /// Whether the keys are spread over the slots of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.live().is_ok_and(|live| live.client.is_clustered())
    }

    async fn attempt_twice(
        &self,
        live: &Live,
        script: &Script,
        keys: Vec<String>,
        args: Vec<Value>,
        start: Instant,
        end: Instant,
    ) -> Result<Value, CallError> {
        let (command, words) = script.evalsha(keys, args);
        let attempt = async |words| {
            // fred takes a timeout of zero for none.
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let client = live.client.with_options(&command_options(left));
            let reply = client.custom::<Value, Value>(command.clone(), words).await;
            reply.map_err(|error| CallError::from_fred(&error, self.0.deadline))
        };
        match attempt(words.clone()).await {
            Err(error) if error.is_no_script() => self.0.loader.load(&live.client, script, start).await?,
            // Either fred has just learnt where the slot is, or the move may be over now.
            Err(CallError::Moving(_)) => {}
            result => return result,
        }
        attempt(words).await
    }

    /// Picks a link that is up, taking turns.
    fn live(&self) -> Result<Live, CallError> {
        let links = &self.0.links;
        let first =
            if links.len() == 1 { 0 } else { self.0.next.fetch_add(1, Ordering::Relaxed) % links.len() };
        let mut reason = None;
        for link in links[first..].iter().chain(&links[..first]) {
            match link.state() {
                State::Up(live) => return Ok(live),
                State::Down(error) => reason = Some(error),
            }
        }
        Err(CallError::Unavailable(
            reason.map_or_else(String::new, |error| link::reason_of(&error).to_owned()),
        ))
    }
}

/// Enough for fred's timer to fire first.
const GRACE: Duration = Duration::from_millis(2);

#[cfg(test)]
pub(crate) mod tests;
