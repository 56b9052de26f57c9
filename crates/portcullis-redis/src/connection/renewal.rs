//! A connection after the end of the runtime that has its tasks.
//!
//! The call that finds it ended connects anew, in its own runtime. The first connection stays, and leads to the newest one.

use std::future::pending;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Connection, Route};
use crate::cluster::node::RoutedCall;
use crate::fred::config::ClientConfig;
use crate::lock::lock;
use crate::protocol::value::Value;
use crate::transport::{CallError, Options, Transport as _};

/// What a connection needs for another one.
#[derive(Debug)]
pub(super) struct Renewal {
    /// Whether the runtime of the tasks has ended.
    has_ended: Arc<AtomicBool>,
    /// `None` for clients of the user, and for a connection that is the successor of another one.
    origin: Option<(ClientConfig, Options)>,
    created: Instant,
    successor: Mutex<Option<Connection>>,
}

impl Renewal {
    /// Begins to watch the runtime, by one more task.
    pub(super) fn new(origin: Option<(ClientConfig, Options)>, tasks: &mut JoinSet<()>) -> Self {
        let has_ended = Arc::<AtomicBool>::default();
        let end = RuntimeEnd(Arc::clone(&has_ended));
        tasks.spawn(async move {
            pending::<()>().await;
            drop(end);
        });
        Self { has_ended, origin, created: Instant::now(), successor: Mutex::default() }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

/// Dropped with its task when the runtime ends.
struct RuntimeEnd(Arc<AtomicBool>);

impl Drop for RuntimeEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Connection {
    /// The connection in a runtime that runs, if that of this one has ended. Outside of every runtime there is no new one.
    pub(super) fn successor(&self) -> Option<Self> {
        let renewal = &self.0.renewal;
        if !renewal.has_ended() {
            return None;
        }
        let (config, options) = renewal.origin.as_ref()?;
        let mut successor = lock(&renewal.successor);
        let has_ended = successor.as_ref().is_none_or(|successor| successor.0.renewal.has_ended());
        if has_ended && Handle::try_current().is_ok() {
            self.0.outage_log.down(ENDED);
            let (server, outage_log) = (self.0.server.clone(), Arc::clone(&self.0.outage_log));
            *successor = Some(Self::linked(server, config, None, options, outage_log));
        }
        successor.clone()
    }

    /// Runs a call on a successor, once it is connected or its first attempts have failed.
    pub(super) async fn run_when_linked(self, call: RoutedCall<'_>) -> Result<Value, CallError> {
        let end = call.command.end.min(self.0.renewal.created + LONGEST_CONNECT);
        match &self.0.route {
            Route::One(node) => drop(timeout_at(end, node.first_attempt()).await),
            Route::Cluster(_) => {
                while !self.availability(call.slot).is_connected && Instant::now() < end {
                    sleep(POLL_INTERVAL).await;
                }
            }
            #[cfg(feature = "recorded")]
            Route::Recorded(_) => {}
        }
        self.run_here(&RoutedCall { start: Instant::now(), ..call }).await
    }

    /// The runtime of the tasks.
    pub(crate) fn runtime(&self) -> Handle {
        self.successor().as_ref().unwrap_or(self).0.runtime.clone()
    }
}

const ENDED: &str =
    "the runtime in which it was connected has ended: it is connected anew in the one that asks";
/// After this time calls no longer wait for the first connection of a successor.
const LONGEST_CONNECT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
