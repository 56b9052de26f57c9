//! Denials that a task reports, because the store does not answer reports at once.

mod unreported;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;
use tokio::task::JoinHandle;

use unreported::Unreported;

/// The denials of one policy.
#[derive(Debug, Default)]
pub(crate) struct Later {
    /// Whether the store does not answer reports at once.
    is_reported_later: AtomicBool,
    denials: Mutex<Denials>,
}

#[derive(Debug, Default)]
struct Denials {
    unreported: Unreported,
    /// The task that reports them.
    task: Option<JoinHandle<()>>,
}

impl Later {
    /// Whether denials are counted here and reported by a task.
    pub(crate) fn is_reported_later(&self) -> bool {
        self.is_reported_later.load(Relaxed)
    }

    pub(crate) fn report_later(&self) {
        self.is_reported_later.store(true, Relaxed);
    }

    /// Counts a denial, if a task reports it, which `start` starts unless there is one.
    pub(crate) fn count(&self, key: Key, start: impl FnOnce() -> Option<JoinHandle<()>>) {
        let mut denials = self.lock();
        // The task of a runtime that has ended is finished.
        let task = denials.task.take().filter(|task| !task.is_finished());
        denials.task = task.or_else(start);
        if denials.task.is_some() {
            denials.unreported.add(key);
        }
    }

    /// Takes what is to be reported, the keys with the most denials first. If there is nothing, the task ends: the next denial starts
    /// another one, which may be there before it has ended.
    pub(crate) fn take(&self) -> Vec<(Key, u32)> {
        let mut denials = self.lock();
        let taken = denials.unreported.take();
        if taken.is_empty() {
            denials.task = None;
        }
        taken
    }

    /// The denials are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Denials> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
