//! Reads one body to its end, or to the bounds.

use std::pin::Pin;
use std::time::Duration;

use bytes::Buf;
use http_body::Body;
use http_body_util::BodyExt as _;
use portcullis_engine::task;
use tokio::runtime::Handle;
use tokio::task::coop;
use tokio::time::{Instant, timeout_at};

use super::drop_unread;
use super::room::{Sender, take_place};

/// Reads a body in a task of the current runtime. Without one, or without a place, the body is dropped.
#[cold]
pub(super) fn spawn<B>(body: B, sender: Sender, bytes: u64)
where
    B: Body + Send + 'static,
{
    let Ok(runtime) = Handle::try_current() else { return };
    match take_place(sender) {
        Some(place) => drop(task::spawn(&runtime, async move {
            read(Box::pin(body), bytes).await;
            drop(place);
        })),
        None => drop_unread(body),
    }
}

async fn read<B: Body>(mut body: Pin<Box<B>>, most: u64) {
    let start = Instant::now();
    let mut bytes = 0;
    while bytes <= most {
        match timeout_at(start + patience(bytes), body.frame()).await {
            Ok(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, Buf::remaining) as u64,
            Ok(Some(Err(_)) | None) | Err(_) => break,
        }
        // A body that is always ready does not look at its deadline.
        if Instant::now() >= start + patience(bytes) {
            break;
        }
        coop::consume_budget().await;
    }
    drop_unread(body);
}

/// The time for a body of which this much has arrived.
fn patience(bytes: u64) -> Duration {
    let at_least = Duration::from_millis(bytes.saturating_mul(1_000) / SLOWEST_BYTES_PER_SECOND);
    at_least.saturating_add(GRACE).min(LONGEST)
}

const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;
const GRACE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::{Context, Poll, ready};

    use bytes::Bytes;
    use http_body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    /// A body without an end, of chunks at an interval, or always ready.
    struct Endless {
        chunk: Bytes,
        ticks: Option<Interval>,
        read: Arc<AtomicU64>,
    }

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if let Some(ticks) = &mut self.ticks {
                ready!(ticks.poll_tick(cx));
            }
            self.read.fetch_add(self.chunk.len() as u64, Relaxed);
            Poll::Ready(Some(Ok(Frame::data(self.chunk.clone()))))
        }
    }

    /// Reads such a body. Returns the bytes and the seconds that it took.
    async fn read_chunks(bytes: usize, every: Duration) -> (u64, u64) {
        let read = Arc::new(AtomicU64::new(0));
        let chunk = Bytes::from(vec![0; bytes]);
        let start = Instant::now();
        let body = Endless { chunk, ticks: Some(interval(every)), read: Arc::clone(&read) };
        super::read(Box::pin(body), super::super::BYTES).await;
        (read.load(Relaxed), start.elapsed().as_secs())
    }

    #[tokio::test]
    async fn a_body_that_never_waits_has_an_end() {
        let body = Endless { chunk: Bytes::new(), ticks: None, read: Arc::default() };
        super::read(Box::pin(body), super::super::BYTES).await;
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_have_a_size_a_time_and_a_rate() {
        let second = Duration::from_secs(1);
        // The next byte after the bound is that of another chunk.
        assert_eq!(read_chunks(1 << 20, second / 1_000).await.0, 17 << 20);
        assert_eq!(read_chunks(128 << 10, second).await, (6 * (128 << 10), 5), "in five seconds");
        assert_eq!(read_chunks(1, second / 10).await.1, 1, "ten bytes a second");
        assert_eq!(read_chunks(32 << 10, second).await.1, 2, "at half the rate");
    }
}
