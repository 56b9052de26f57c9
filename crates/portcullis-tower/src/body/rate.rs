//! The smallest rate at which a client sends the body of its request.

mod claim;
mod erased;
mod rated;

use std::fmt;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use http_body::Body;

use portcullis_response::internal::is_grpc;

pub use claim::GrpcClaim;
pub use erased::rated;
use rated::Pace;
pub use rated::RatedBody;

/// The smallest rate at which a client sends the body of its request: so many bytes in a time.
///
/// A body of which a reader waits as long for fewer bytes ends with the error [`SlowBody`]. Only the time counts in which the reader waits
/// for the client, so that a handler that does not read makes no client slow, and it counts anew after as many bytes, so that a client
/// cannot stop after it was fast. By default 1 920 bytes in 30 s: a client may be silent for 30 s, and sends at least 64 bytes per second.
///
/// Streams of gRPC may be silent, and any client can claim to have one. So a call has no rate once its response shows by its content type that it is
/// one, and until then the same as other requests. [`allow_silent_grpc`](Self::allow_silent_grpc) is for services whose responses come at the end of
/// such streams. Upgrades and the tunnels of `CONNECT` have no body.
///
/// `portcullis::shed::ShedLayer` applies it to the requests in flight. A server without that layer wraps its requests:
///
/// ```
/// use std::time::Duration;
///
/// use http::Request;
/// use http_body_util::BodyExt as _;
/// use portcullis::BodyRate;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let rate = BodyRate::new(10_000, Duration::from_secs(10));
/// let request = rate.watch(Request::new(String::from("four")));
/// assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "four");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyRate {
    bytes: u64,
    within: Duration,
    believes_grpc: bool,
}

impl BodyRate {
    /// Requires this many bytes of a body in this time of waiting. 0 bytes are taken for one, and a shorter time than a second for a second.
    #[must_use]
    pub fn new(bytes: u64, within: Duration) -> Self {
        Self { bytes: bytes.max(1), within: within.max(Duration::from_secs(1)), believes_grpc: false }
    }

    /// Exempts each request that claims to be a call of gRPC, from its beginning: for client streams that may be silent, and whose responses come at
    /// their ends. Any client can claim it, so that each can hold a request in flight as long as it likes.
    #[must_use]
    pub fn allow_silent_grpc(self) -> Self {
        Self { believes_grpc: true, ..self }
    }

    /// Wraps the body of a request, which ends with an error if the client sends it too slowly.
    ///
    /// It takes a tokio runtime with a timer where a reader has to wait. Outside of a runtime a body may take any time. A server with streams of
    /// gRPC passes the heads of responses to the body's [`grpc_claim`](RatedBody::grpc_claim).
    pub fn watch<B: Body>(self, request: Request<B>) -> Request<RatedBody<B>> {
        let (parts, body) = request.into_parts();
        let pace = self.pace(&parts);
        Request::from_parts(parts, RatedBody::new(body, pace))
    }

    /// `None` for a body that may take any time.
    fn pace(self, parts: &Parts) -> Option<Pace> {
        let is_claimed = is_grpc(parts);
        (!is_claimed || !self.believes_grpc).then(|| Pace::new(self, is_claimed.then(GrpcClaim::default)))
    }
}

impl Default for BodyRate {
    fn default() -> Self {
        Self::new(64 * 30, Duration::from_secs(30))
    }
}

impl fmt::Display for BodyRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {:?}", self.bytes, self.within)
    }
}

/// A client sends the body of its request more slowly than the [`BodyRate`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client sends the body of its request too slowly: less than {rate}")]
pub struct SlowBody {
    rate: BodyRate,
}

#[cfg(test)]
mod tests;
