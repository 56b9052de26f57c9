//! Where a store gets its time from.

use crate::Timestamp;

/// A source of time, given to a store that has none of its own.
///
/// A clock may step, forwards or backwards: every algorithm is specified under such steps.
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
    /// The present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
