//! The deadline of a call.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

/// How much of its deadline a call has waited for its reply, which decides what a missing reply means.
#[derive(Clone, Copy)]
pub(crate) enum ReplyTime {
    /// A missing reply may be an outage, if a [probe](super::overtime) has none either.
    Sufficient,
    /// The call waited so long for its permit that a healthy server would not have replied in time either.
    SpentOnPermit,
}

impl ReplyTime {
    /// For a call that had the time `before` until its deadline when it requested a permit, and `left` when it was sent.
    pub(crate) fn of(before: Duration, left: Duration, deadline: Duration) -> Self {
        let half = deadline / 2;
        if before >= half && left < half { Self::SpentOnPermit } else { Self::Sufficient }
    }
}

/// The output of `reply`, or `None` if there is none by `end`.
///
/// In a busy process the timer may end a call whose reply is already in the socket, so the reply is polled a few more times: a task that
/// yields is polled again after the sockets and the tasks that they wake.
pub(crate) async fn wait_until<T>(end: Instant, reply: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(reply);
    if let Ok(result) = timeout_at(end, &mut reply).await {
        return Some(result);
    }
    final_polls(reply).await
}

/// The output of a reply that is there although its deadline has passed.
pub(crate) async fn final_polls<F: Future + ?Sized>(mut reply: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..FINAL_POLLS {
        yield_now().await;
        let polled = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await;
        if let Poll::Ready(result) = polled {
            return Some(result);
        }
    }
    None
}

/// The socket, the task that reads it, and the one that waits for a reply, with one to spare.
const FINAL_POLLS: usize = 4;
