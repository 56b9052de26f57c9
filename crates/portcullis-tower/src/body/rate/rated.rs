//! A body that ends with an error if it arrives too slowly.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BodyRate, GrpcClaim, SlowBody};

pin_project! {
    /// The body of a request, which ends with the error [`SlowBody`] if it arrives more slowly than a [`BodyRate`].
    #[derive(Debug)]
    pub struct RatedBody<B> {
        #[pin]
        body: B,
        pace: Option<Pace>,
        is_over: bool,
    }
}

impl<B> RatedBody<B> {
    /// Without a pace for a body that may take any time.
    pub(super) fn new(body: B, pace: Option<Pace>) -> Self {
        Self { body, pace, is_over: false }
    }

    /// The claim of the request to be a call of gRPC, which its response may prove. `None` if it does not claim it, or may be silent anyway.
    pub fn grpc_claim(&self) -> Option<GrpcClaim> {
        self.pace.as_ref()?.claim()
    }
}

impl<B> Body for RatedBody<B>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = self.project();
        if *this.is_over {
            return Poll::Ready(None);
        }
        let polled = this.body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
        let Some(pace) = this.pace else { return polled };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => pace.arrived(frame.data_ref().map_or(0, Buf::remaining)),
            Poll::Ready(_) => {}
            Poll::Pending => {
                let error = ready!(pace.poll_slow(cx));
                if pace.claim.as_ref().is_some_and(GrpcClaim::is_proven) {
                    *this.pace = None;
                    return Poll::Pending;
                }
                *this.is_over = true;
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over { SizeHint::with_exact(0) } else { self.body.size_hint() }
    }
}

/// How long a reader has waited for the bytes that have arrived.
#[derive(Debug)]
pub(super) struct Pace {
    rate: BodyRate,
    claim: Option<GrpcClaim>,
    bytes: u64,
    waited: Duration,
    /// Since when the reader waits.
    since: Option<Instant>,
    /// Made for the first wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(super) fn new(rate: BodyRate, claim: Option<GrpcClaim>) -> Self {
        Self { rate, claim, bytes: 0, waited: Duration::ZERO, since: None, timer: None }
    }

    pub(super) fn claim(&self) -> Option<GrpcClaim> {
        self.claim.clone()
    }

    fn arrived(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            let waited = self.waited.saturating_add(since.elapsed());
            // A reader that waits is woken at the end of the time: this one has done something else meanwhile.
            if waited < self.rate.within {
                self.waited = waited;
            }
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes >= self.rate.bytes {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    /// Ready once too little has arrived in the time.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<SlowBody> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let end = since.checked_add(self.rate.within.saturating_sub(self.waited));
        let Some(end) = end.filter(|_| Handle::try_current().is_ok()) else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(cx).map(|()| SlowBody { rate: self.rate })
    }
}
