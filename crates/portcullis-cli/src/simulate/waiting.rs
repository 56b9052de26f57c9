//! A request that waits, at the instants of the log.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use portcullis_core::{Clock as _, ManualClock, Timestamp};
use tokio::time::Instant;

use super::counts::{Current, Recorder};
use super::upstream::Upstream;

/// A task that sets the clock of the store whenever its time has passed.
pub(super) struct Waiting<F> {
    pub(super) response: Pin<Box<F>>,
    pub(super) current: Current,
    pub(super) status: u16,
    pub(super) upstream: Upstream,
    pub(super) recorder: Recorder,
    pub(super) clock: ManualClock,
    /// An instant of the runtime, and the same of the log.
    pub(super) origin: (Instant, u64),
}

impl<F, B> Future for Waiting<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (instant, micros) = this.origin;
        let passed = u64::try_from(instant.elapsed().as_micros()).unwrap_or(u64::MAX);
        let now = micros.saturating_add(passed).max(this.clock.now().as_micros());
        this.clock.set(Timestamp::from_micros(now));
        this.upstream.set_status(this.status);
        let before = this.recorder.swap(std::mem::take(&mut this.current));
        let polled = this.response.as_mut().poll(cx);
        this.current = this.recorder.swap(before);
        polled.map(drop)
    }
}
