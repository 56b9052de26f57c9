//! The service of a connection: it knows the peer, and counts the requests that are not answered completely.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::ConnectInfo;
use bytes::Buf;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use portcullis::{BodyRate, RatedBody, Unread};
use tower::{Service, ServiceExt as _};

use super::activity::{Activity, InFlight, Unsent};

/// The body of a request, which a client has to send fast enough, and of which the rest is discarded.
pub type ClientBody = Unread<RatedBody<Incoming>>;

#[derive(Clone, Debug)]
pub(super) struct Tracked<S> {
    pub(super) service: S,
    pub(super) peer: SocketAddr,
    pub(super) body_rate: BodyRate,
    pub(super) activity: Arc<Activity>,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let request_in_flight = InFlight::begin(&self.activity);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let request = self.body_rate.watch(request);
        let claim = request.body().grpc_claim();
        let request = Unread::wrap(request, self.peer.ip());
        let response = self.service.clone().oneshot(request);
        Box::pin(async move {
            let response = response.await?;
            if let Some(claim) = claim {
                claim.answered(response.headers());
            }
            Ok(response.map(|body| TrackedBody { body, request: request_in_flight }))
        })
    }
}

pin_project! {
    /// A body whose request is in flight until it is dropped.
    #[derive(Debug)]
    pub(super) struct TrackedBody<B> {
        #[pin]
        body: B,
        request: InFlight,
    }
}

/// Bytes of a response, which the protocol may keep for longer than the body.
#[derive(Debug)]
pub(super) struct TrackedData<D> {
    data: D,
    unsent: Unsent,
}

impl<D: Buf> Buf for TrackedData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, chunks: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(chunks)
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
        self.unsent.has_written(bytes);
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = TrackedData<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let tracked = |frame: Frame<B::Data>| {
            frame.map_data(|data| TrackedData { data, unsent: this.request.unsent() })
        };
        this.body.poll_frame(cx).map_ok(tracked)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
