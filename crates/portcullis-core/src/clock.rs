//! The clock of a store.

mod manual;

use crate::Timestamp;

pub use manual::ManualClock;

/// A source of time, for a store that has no clock.
///
/// A clock may step, forwards or backwards: every algorithm specifies what it does then.
///
/// ```
/// use portcullis_core::{Clock, Timestamp};
///
/// struct Stopped;
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_micros(42)
///     }
/// }
/// assert_eq!(Stopped.now().as_micros(), 42);
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
