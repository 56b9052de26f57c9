//! How many calls are in fred's hands.
//!
//! What fred was given is sent, even if its caller goes away. So only so many calls at a time are given to it; the others
//! wait here, where one that goes away or runs out of time has sent nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::breaker::Breaker;
use super::error::CallError;

/// The seats of one link, taken in the order of asking.
#[derive(Debug)]
pub(super) struct Window {
    seats: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
    most_waiting: usize,
}

impl Window {
    pub(super) fn new(all: usize, most_waiting: usize) -> Self {
        Self { seats: Arc::new(Semaphore::new(all)), all, waiting: AtomicUsize::new(0), most_waiting }
    }

    /// Takes a seat if one is free. It is to be kept until fred is done with the call.
    pub(super) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// Waits for a seat until `end`, or until the breaker opens.
    ///
    /// # Errors
    /// If too many wait already, if the time is over, or when the breaker opens: nothing was sent.
    ///
    /// # Cancel safety
    /// Who goes away has sent nothing.
    pub(super) async fn enter(
        &self,
        breaker: &Breaker,
        end: Instant,
        deadline: Duration,
    ) -> Result<OwnedSemaphorePermit, CallError> {
        if let Some(seat) = self.try_enter() {
            return Ok(seat);
        }
        let _waiting = Waiting::begin(self).ok_or(CallError::Overloaded)?;
        tokio::select! {
            biased;
            seat = Arc::clone(&self.seats).acquire_owned() => seat.map_err(|_| CallError::Overloaded),
            () = breaker.opened() => Err(CallError::silent()),
            () = sleep_until(end) => Err(CallError::NotSent(deadline)),
        }
    }

    /// Whether only one call is in fred's hands. Who asks after its own call was sent learns that none before it is.
    pub(super) fn has_one(&self) -> bool {
        self.seats.available_permits() + 1 >= self.all
    }
}

/// One who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(window: &'a Window) -> Option<Self> {
        let waiting = Self(&window.waiting);
        (window.waiting.fetch_add(1, Ordering::Relaxed) < window.most_waiting).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_bounded_by_number_and_time_and_leaves_nothing_behind() {
        let window = Window::new(1, 1);
        let breaker = Breaker::new(Arc::default());
        let deadline = Duration::from_millis(50);
        let enter = || window.enter(&breaker, Instant::now() + deadline, deadline);
        let seat = enter().await.unwrap();
        assert!(window.has_one());
        let (waited, refused) = tokio::join!(enter(), enter());
        assert_eq!(waited.unwrap_err(), CallError::NotSent(deadline));
        assert_eq!(refused.unwrap_err(), CallError::Overloaded);
        drop(seat);
        assert!(enter().await.is_ok());
        assert_eq!((window.waiting.load(Ordering::Relaxed), window.seats.available_permits()), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_when_the_breaker_opens() {
        let window = Window::new(1, 10);
        let breaker = Breaker::new(Arc::default());
        let _seat = window.try_enter().unwrap();
        let ticket = breaker.admit().unwrap();
        let end = Instant::now() + Duration::from_secs(9);
        let (waited, ()) =
            tokio::join!(window.enter(&breaker, end, Duration::from_secs(9)), async { ticket.silent() });
        assert!(matches!(waited, Err(CallError::Unavailable(_))), "{waited:?}");
        assert!(Instant::now() < end);
    }
}
