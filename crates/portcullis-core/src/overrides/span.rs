//! A length of time with an end.

use core::time::Duration;

use crate::Timestamp;
use crate::overrides::MAX_LENGTH;
use crate::time::saturating_micros;

/// A length of time with an end on the store's clock. It is never longer from now than its length, even after the clock was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) until: Timestamp,
    /// At most 2^51 microseconds.
    pub(super) micros: u64,
}

impl Span {
    pub(super) fn new(start: Timestamp, length: Duration) -> Self {
        let length = length.min(MAX_LENGTH);
        Self { until: start.saturating_add(length), micros: saturating_micros(length) }
    }

    pub(super) const fn length(self) -> Duration {
        Duration::from_micros(self.micros)
    }

    pub(super) const fn start(self) -> Timestamp {
        self.until.saturating_sub(self.length())
    }

    /// What is left at `now`; `None` at and after the end.
    pub(super) fn left(self, now: Timestamp) -> Option<Duration> {
        Some(self.until.saturating_since(now).min(self.length())).filter(|left| !left.is_zero())
    }

    /// Cuts the end if it is further from `now` than the length. Returns whether it was.
    pub(super) fn cut(&mut self, now: Timestamp) -> bool {
        let latest = now.saturating_add(self.length());
        let is_late = self.until > latest;
        if is_late {
            self.until = latest;
        }
        is_late
    }
}
