//! Whether a request may wait, as its door and its [`Attempt`](super::Attempt) see it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::Poll;

/// What a door knows of the waits of a request. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Patience(Arc<AtomicU8>);

/// The request must not wait yet: what is not there at once is not polled.
const PROBING: u8 = 1;
/// The request waits for longer than a call of the store takes.
const LONG: u8 = 2;

impl Patience {
    /// A request that must not wait until [`probed`](Self::probed).
    pub fn probing() -> Self {
        Self(Arc::new(AtomicU8::new(PROBING)))
    }

    /// Lets the request wait from now on.
    pub fn probed(&self) {
        self.0.fetch_and(!PROBING, Relaxed);
    }

    /// Goes on when the request may wait. Comes before every await that may have to wait; later ones behind it need none. It keeps no
    /// waker, because a door that calls [`probed`](Self::probed) polls again.
    pub(super) async fn resume(&self) {
        poll_fn(|_| if self.has(PROBING) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    pub(super) fn waits_long(&self) {
        self.0.fetch_or(LONG, Relaxed);
    }

    /// Whether the request may wait for longer than a call of the store takes.
    pub fn is_long(&self) -> bool {
        self.has(LONG)
    }

    fn has(&self, bit: u8) -> bool {
        self.0.load(Relaxed) & bit != 0
    }
}
