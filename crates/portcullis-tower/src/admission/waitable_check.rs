//! A call of the store, and the waits for windows and logs that may follow.

use std::task::{Context, Poll, ready};

use super::pending_check::PendingCheck;
use super::window_wait::{Continued, LastAnswer, WaitContext, WindowWait};

/// A call of the store that has no answer yet, or a request that waits for a window.
#[expect(clippy::large_enum_variant, reason = "most requests are the first variant")]
pub(super) enum WaitableCheck {
    /// With what it takes to wait, if a wait may follow a denial.
    Asking(PendingCheck, Option<Box<WaitContext>>),
    Waiting(Box<WindowWait>),
}

impl WaitableCheck {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LastAnswer> {
        loop {
            let waiting = match self {
                Self::Asking(check, wait_context) => {
                    let answer = ready!(check.poll(cx));
                    match Continued::of(wait_context.take(), answer) {
                        Continued::Over(last) => return Poll::Ready(last),
                        Continued::Wait(waiting) => waiting,
                    }
                }
                Self::Waiting(waiting) => return waiting.poll(cx),
            };
            *self = Self::Waiting(waiting);
        }
    }

    /// Whether the inner service may be kept ready: a call of the store ends soon after its deadline, and the wait for a window may
    /// take longer.
    pub(super) fn keeps_readiness(&self) -> bool {
        matches!(self, Self::Asking(..))
    }
}
