//! What requests leave to be done later: those that wait, and what is owed for those that are over.

use portcullis_core::Key;
use portcullis_log::UnsaidLines;

use super::keyed_limit::{self, KeyedLimit};
use super::permits::InFlight;
use super::settler::{NoTask, Settler, TaskPermit, Tasks};
use super::slots::Queues;
use super::windows::WindowQueues;

/// What waits for a time or a task of the runtime.
pub struct Backlog {
    tasks: Tasks,
    /// Bounds the requests that wait, in total and per key.
    pub wait_limit: KeyedLimit<Key>,
    pub(crate) queues: Queues,
    pub(crate) window_queues: WindowQueues,
    /// The settlements that are not made yet.
    pub settler: Settler,
    /// The permits of requests in flight.
    pub in_flight: InFlight,
    /// The events that no line of a log has stated yet.
    pub unsaid_lines: UnsaidLines,
}

opaque_debug!(Backlog);

impl Default for Backlog {
    fn default() -> Self {
        let settler = Settler::default();
        Self {
            tasks: Tasks::default(),
            wait_limit: KeyedLimit::new(keyed_limit::MAX_WAITING_REQUESTS),
            queues: Queues::default(),
            window_queues: WindowQueues::default(),
            in_flight: InFlight::new(settler.clone()),
            settler,
            unsaid_lines: UnsaidLines::default(),
        }
    }
}

impl Backlog {
    /// Returns a permit for a task that settles a charge.
    ///
    /// # Errors
    ///
    /// Returns why no task can be spawned: there is no runtime, or too many tasks run.
    pub fn task_permit(&self) -> Result<TaskPermit, NoTask> {
        self.tasks.permit()
    }
}
