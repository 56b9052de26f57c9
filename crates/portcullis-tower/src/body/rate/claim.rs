//! Requests that claim to be calls of gRPC.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::HeaderMap;

use crate::limit::response_outcome::is_grpc;

/// The claim of a request to be a call of gRPC, from [`RatedBody::grpc_claim`](super::RatedBody::grpc_claim). Its body may be silent once the
/// response proves it.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Request};
/// use portcullis::BodyRate;
///
/// let request = Request::post("/a.B/C").header("content-type", "application/grpc").body(String::new())?;
/// let request = BodyRate::default().watch(request);
/// let claim = request.body().grpc_claim().expect("it claims to be one");
/// // The server has handled the request.
/// let grpc = HeaderValue::from_static("application/grpc");
/// claim.answered(&HeaderMap::from_iter([(http::header::CONTENT_TYPE, grpc)]));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GrpcClaim(Arc<AtomicBool>);

impl GrpcClaim {
    /// The response has these headers: from now on the body may take any time if its content type is of gRPC.
    pub fn answered(&self, headers: &HeaderMap) {
        if is_grpc(headers) {
            self.0.store(true, Relaxed);
        }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.0.load(Relaxed)
    }
}
