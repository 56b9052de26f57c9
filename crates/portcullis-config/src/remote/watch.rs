//! Follows the document of remote rules.

mod follower;
mod numbers;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::DocumentStore;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::follower::Follower;
use crate::live::LiveRules;

/// Follows a document of remote rules.
#[derive(Clone, Copy, Debug)]
pub struct RemoteWatch;

/// Follows a document until it is dropped.
#[derive(Debug)]
#[must_use = "a document is followed until the handle is dropped"]
pub struct RemoteHandle(JoinHandle<()>);

impl RemoteWatch {
    /// Looks at the document that `[remote]` in the local file names, at once and then at its interval, which varies by up to a tenth. A
    /// look costs one call of the store that reads a line; the document is read after a change only.
    ///
    /// A document that is unsigned, stale, too large or changes what it may not is refused: the last good rules stay, and one event and
    /// one log line report it. It is read and judged again at once after each change of the rules, and within 60 s otherwise, and reported
    /// again only if the reason is another. A document that applies, and does not fit the local file after a change of that file,
    /// is discarded, with one event and one log line: the values of the local file apply. While the store does not answer, the last good rules stay as well, and one line is logged per outage.
    /// Without `[remote]` in the file nothing is read.
    ///
    /// It ends when the handle is dropped, or the rules are.
    ///
    /// # Errors
    ///
    /// Outside of a Tokio runtime.
    pub fn start(live: &LiveRules, store: Arc<dyn DocumentStore>) -> Result<RemoteHandle, RemoteError> {
        let runtime = Handle::try_current().map_err(|_| RemoteError::NoRuntime)?;
        Ok(RemoteHandle(runtime.spawn(follow(Follower::new(live, store), live.replacements()))))
    }
}

impl Drop for RemoteHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(mut follower: Follower, replacements: Arc<Notify>) {
    loop {
        // Before the look, so that no change is missed.
        let replaced = pin!(replacements.notified());
        let Some(pause) = follower.look().await else { return };
        tokio::select! {
            () = replaced => {}
            () = tokio::time::sleep(jitter(pause)) => {}
        }
    }
}

/// A time within a tenth of `pause`, so that the instances of a fleet do not ask at the same instant.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 2_001;
    // At most 2001, which a double has exactly.
    pause.mul_f64(0.9 + f64::from(u16::try_from(random).unwrap_or_default()) / 10_000.0)
}

/// Why a document is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no Tokio runtime.
    #[error("remote rules are followed on a tokio runtime, and there is none here")]
    NoRuntime,
}
