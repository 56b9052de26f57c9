//! Tasks that continue after their request was dropped, bounded in number.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::task::spawn;

/// The tasks of all layers of one limiter. Clones share their number.
#[derive(Clone, Debug)]
pub(crate) struct Tasks(Arc<Semaphore>);

impl Tasks {
    /// Returns a permit for a task on the current runtime, for work that must not begin if it could not be spawned.
    pub(crate) fn permit(&self) -> Result<TaskPermit, NoTask> {
        let runtime = Handle::try_current().map_err(|_| NoTask::NoRuntime)?;
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| NoTask::TooMany)?;
        Ok(TaskPermit(runtime, permit))
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_TASKS)))
    }
}

/// The permit for one task, which holds it until it ends, including by a shutdown of the runtime.
#[derive(Debug)]
pub struct TaskPermit(Handle, OwnedSemaphorePermit);

impl TaskPermit {
    /// Spawns a task on the runtime that the permit was made on.
    pub fn spawn(self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let Self(runtime, permit) = self;
        spawn(&runtime, async move {
            work.await;
            drop(permit);
        })
    }
}

/// Why no task can be spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTask {
    /// There is no Tokio runtime.
    NoRuntime,
    /// Too many are running.
    TooMany,
}

/// Enough for the refunds of about ten thousand disconnects per second: a store answers within its deadline, except when an outage
/// begins.
const MAX_TASKS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn detached_tasks_are_counted_until_they_end() {
        let tasks = Tasks::default();
        for _ in 0..MAX_TASKS {
            drop(tasks.permit().unwrap().spawn(tokio::task::yield_now()));
        }
        assert!(tasks.permit().is_err());
        while tasks.0.available_permits() < MAX_TASKS {
            tokio::task::yield_now().await;
        }
        assert!(tasks.permit().is_ok());
    }

    #[test]
    fn nothing_runs_without_a_runtime() {
        let tasks = Tasks::default();
        assert!(tasks.permit().is_err());
        assert_eq!(tasks.0.available_permits(), MAX_TASKS);
    }
}
