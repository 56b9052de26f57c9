//! Reloads rules when their files change.

mod directories;
mod events;
mod look;
mod signal;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use portcullis_log::codes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

use self::look::Looks;
use self::signal::Hangups;
use crate::live::{LiveRules, WeakLiveRules};

/// Reloads rules when their files change.
///
/// ```
/// use portcullis::Limiter;
/// use portcullis::rules::{Rules, Watch, WatchOptions};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::memory().with_rules(Rules::from_file("limits.toml")?)?;
/// let _watch = Watch::start(limiter.rules()?, WatchOptions::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Watch;

/// Watches files until it is dropped.
#[derive(Debug)]
#[must_use = "files are watched until the handle is dropped"]
pub struct WatchHandle(JoinHandle<()>);

/// When files are read again.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    poll: Duration,
    debounce: Duration,
    events: bool,
    hangup: bool,
}

impl WatchOptions {
    /// Files are read again after events of their directories, every 5 s, and on Unix after SIGHUP.
    pub const fn new() -> Self {
        Self {
            poll: Duration::from_secs(5),
            debounce: Duration::from_millis(200),
            events: true,
            hangup: true,
        }
    }

    /// Sets how often the files are read without an event, 5 s by default and 10 ms at least. Events do not arrive from network file
    /// systems, nor for files that are mounted one by one into a container. Rules are replaced only if a file has changed.
    #[must_use]
    pub fn poll(self, interval: Duration) -> Self {
        Self { poll: interval.max(SHORTEST), ..self }
    }

    /// Sets for how long there must be no event before the files are read, 200 ms by default and 10 ms at least, so that a file is
    /// complete that is written in parts. Files that change all the time are read after ten times as long.
    #[must_use]
    pub fn debounce(self, time: Duration) -> Self {
        Self { debounce: time.max(SHORTEST), ..self }
    }

    /// Reads files at the interval only.
    #[must_use]
    pub fn without_events(self) -> Self {
        Self { events: false, ..self }
    }

    /// Does not handle SIGHUP, whose default then ends the process unless it is handled elsewhere. Without effect where there is no
    /// such signal.
    #[must_use]
    pub fn without_hangup(self) -> Self {
        Self { hangup: false, ..self }
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Watches the files of the rules, and those that they include, and reloads the rules after a change.
    ///
    /// What counts is the content: files are watched by their directories, through links, so that a file may be replaced, deleted and
    /// come back. A change that cannot be used is refused once for each content; the last good rules stay. If the system cannot
    /// watch a directory, one line is logged, and its files are read at the interval. SIGHUP reloads also what has not changed.
    ///
    /// It ends when the handle is dropped, or the rules are. Files are read on threads that may block.
    ///
    /// # Errors
    ///
    /// Outside of a Tokio runtime, or if a signal cannot be handled.
    pub fn start(live: &LiveRules, options: WatchOptions) -> Result<WatchHandle, WatchError> {
        let runtime = Handle::try_current().map_err(|_| WatchError::NoRuntime)?;
        let hangups = if options.hangup { Hangups::new()? } else { Hangups::none() };
        Ok(WatchHandle(runtime.spawn(follow(live.downgrade(), options, hangups))))
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(live: WeakLiveRules, options: WatchOptions, mut hangups: Hangups) {
    // It keeps one event, however many there are.
    let changed = Arc::new(Notify::new());
    let mut looks = Looks::new(options.events.then(|| Arc::clone(&changed)));
    let mut is_forced = false;
    while let Some(live) = live.upgrade() {
        let look = spawn_blocking(move || {
            looks.look(&live, is_forced);
            looks
        });
        // Only a panic of the reader ends it otherwise.
        let Ok(next) = look.await else {
            return tracing::error!(code = %codes::RULES_UNWATCHED, "the files of the rules are watched no more: restart the service");
        };
        looks = next;
        is_forced = tokio::select! {
            () = hangups.next() => true,
            () = changed.notified() => {
                quiet(&changed, options.debounce).await;
                false
            }
            () = sleep(options.poll) => false,
        };
    }
}

/// Waits until there was no event for `time`, and not longer than ten times as long.
async fn quiet(changed: &Notify, time: Duration) {
    let latest = Instant::now() + 10 * time;
    while timeout_at((Instant::now() + time).min(latest), changed.notified()).await.is_ok() {}
}

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// There is no Tokio runtime.
    #[error("files are watched on a tokio runtime, and there is none here")]
    NoRuntime,
    /// The system refuses to handle the signal.
    #[error("SIGHUP cannot be handled: {0}")]
    Signal(std::io::Error),
}

const SHORTEST: Duration = Duration::from_millis(10);
