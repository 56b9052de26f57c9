//! Locks of mutexes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic: every change under a lock of this crate is complete before any code can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
