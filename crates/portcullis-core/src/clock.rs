//! The clock of a store.

mod manual;

use core::time::Duration;

use crate::Timestamp;

pub use manual::ManualClock;

/// A source of time, for a store that has no clock.
///
/// A clock may step, forwards or backwards: every algorithm specifies what it does then.
///
/// ```
/// use portcullis::Timestamp;
/// use portcullis::store::Clock;
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

    /// The longest time by which one thread may read an instant later or earlier than another: zero, unless a clock says otherwise. A
    /// store takes a reading that is earlier by no more for the latest one, and an earlier one for a clock that was set back. A clock
    /// that reads another one has its skew.
    #[inline]
    fn skew(&self) -> Duration {
        Duration::ZERO
    }
}

impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn skew(&self) -> Duration {
        (**self).skew()
    }
}
