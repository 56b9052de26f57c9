//! Tasks that continue after their request was dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::Handle;

/// Detached tasks, bounded in number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detached(Arc<AtomicUsize>);

impl Detached {
    /// Returns a permit for a task on the current runtime, for work that must not begin if it could not be spawned.
    pub(crate) fn permit(&self) -> Result<TaskPermit, NoTask> {
        let runtime = Handle::try_current().map_err(|_| NoTask::NoRuntime)?;
        let running = Running::start(&self.0).ok_or(NoTask::TooMany)?;
        Ok(TaskPermit { runtime, running })
    }
}

/// The permit for one task.
#[derive(Debug)]
pub(crate) struct TaskPermit {
    runtime: Handle,
    running: Running,
}

impl TaskPermit {
    pub(crate) fn spawn(self, work: impl Future<Output = ()> + Send + 'static) {
        let Self { runtime, running } = self;
        runtime.spawn(async move {
            work.await;
            drop(running);
        });
    }
}

/// Why no task can be spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTask {
    NoRuntime,
    /// [`MAX_TASKS`] are running.
    TooMany,
}

/// Counts one task until it ends, including by a shutdown of the runtime.
#[derive(Debug)]
struct Running(Arc<AtomicUsize>);

impl Running {
    fn start(tasks: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |tasks| Some(tasks + 1).filter(|tasks| *tasks <= MAX_TASKS);
        tasks.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self(Arc::clone(tasks)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Enough for the refunds of about ten thousand disconnects per second: a store answers within its deadline, except when an outage
/// begins.
const MAX_TASKS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn detached_tasks_are_bounded_and_counted_until_they_end() {
        let detached = Detached::default();
        for _ in 0..MAX_TASKS {
            detached.permit().unwrap().spawn(tokio::task::yield_now());
        }
        assert_eq!(detached.permit().err(), Some(NoTask::TooMany));
        while detached.0.load(Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        assert!(detached.permit().is_ok());
    }

    #[test]
    fn nothing_runs_without_a_runtime() {
        let detached = Detached::default();
        assert_eq!(detached.permit().err(), Some(NoTask::NoRuntime));
        assert_eq!(detached.0.load(Relaxed), 0);
    }
}
