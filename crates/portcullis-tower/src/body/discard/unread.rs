//! A body whose rest is read when it is dropped.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Request;
use http_body::{Body, Frame, SizeHint};

use super::room::Sender;
use super::{BYTES, IS_OVER, awaits_continue, read};

/// The body of a request to a server, of which the rest is read and discarded if it is dropped before its end. So a response that is given
/// before reaches its client, and a connection of HTTP/2 is not ended by resets of its streams.
///
/// The bounds are those of [`RateLimitLayer::discard_bodies`](crate::RateLimitLayer::discard_bodies) by default. Bodies for which the
/// client awaits `100 Continue`, and did not get it, are not read.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use http::Request;
/// use http_body_util::BodyExt as _;
/// use portcullis::Unread;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Request::new(String::from("four"));
/// let request = Unread::wrap(request, Ipv4Addr::LOCALHOST.into());
/// assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "four");
/// # }
/// ```
#[derive(Debug)]
pub struct Unread<B>
where
    B: Body + Send + Unpin + 'static,
{
    /// `None` after an error.
    body: Option<B>,
    peer: IpAddr,
    awaits_continue: bool,
}

impl<B> Unread<B>
where
    B: Body + Send + Unpin + 'static,
{
    /// Wraps the body of a request from a peer, which has a sixteenth of the bodies that are read at the same time.
    pub fn wrap(request: Request<B>, peer: IpAddr) -> Request<Self> {
        let awaits_continue = awaits_continue(request.version(), request.headers());
        request.map(|body| Self { body: Some(body), peer, awaits_continue })
    }
}

impl<B> Body for Unread<B>
where
    B: Body + Send + Unpin + 'static,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.awaits_continue = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> Drop for Unread<B>
where
    B: Body + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
            && !self.awaits_continue
            && !IS_OVER.get()
        {
            read::spawn(body, Sender::of_peer(Some(self.peer)), BYTES);
        }
    }
}
