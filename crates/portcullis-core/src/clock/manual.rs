//! A clock that advances only when a test sets it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::{Clock, Timestamp};

/// A clock that a test sets. Clones show the same time.
///
/// It may be set backwards: the algorithms specify what happens then.
///
/// ```
/// use std::time::Duration;
/// use portcullis::Timestamp;
/// use portcullis::store::Clock;
/// use portcullis::testing::ManualClock;
///
/// let clock = ManualClock::new(Timestamp::from_micros(5));
/// let shared = clock.clone();
/// clock.advance(Duration::from_micros(2));
/// assert_eq!(shared.now().as_micros(), 7);
/// clock.set(Timestamp::EPOCH);
/// assert_eq!(shared.now().as_micros(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { micros: Arc::new(AtomicU64::new(now.as_micros())) }
    }

    /// Sets the clock to `now`, which may be earlier than the current instant.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Advances the clock by `time`, rounded down to a microsecond, to at most [`Timestamp::MAX`].
    pub fn advance(&self, time: Duration) {
        let advance = |micros| Some(Timestamp::from_micros(micros).saturating_add(time).as_micros());
        // The closure always returns `Some`.
        let _ = self.micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}
