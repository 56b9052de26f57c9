//! Lines in the log about proxies, at most one a minute of each kind.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets a line through, and then none for a minute.
#[derive(Debug, Default)]
pub(super) struct LogThrottle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    unlogged: u64,
}

impl LogThrottle {
    /// Counts an occurrence, and returns the number of those since the last line if one is due.
    pub(super) fn due(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.unlogged = state.unlogged.saturating_add(1);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.unlogged))
    }
}

const INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_minute_has_the_number_of_all() {
        let throttle = LogThrottle::default();
        assert_eq!([throttle.due(), throttle.due(), throttle.due()], [Some(1), None, None]);
        tokio::time::advance(INTERVAL).await;
        assert_eq!([throttle.due(), throttle.due()], [Some(3), None]);
    }
}
