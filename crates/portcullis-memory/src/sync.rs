//! Locks and atomics: those of the standard library, or those of a scheduler that explores thread interleavings.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};
