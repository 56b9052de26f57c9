//! Makes a status of Tonic from `Limited`.

use http::header;
use tonic::Status;

use super::Limited;

impl From<Limited> for Status {
    /// The status of a gRPC rejection, with `RetryInfo` and `QuotaFailure` in its details, and with the pushback and the headers
    /// of the budget in its metadata. The closure for rejections is not called.
    fn from(limited: Limited) -> Self {
        let mut headers = limited.into_grpc().into_parts().0.headers;
        headers.remove(header::CONTENT_TYPE);
        Self::from_header_map(&headers).expect("a gRPC rejection has a status")
    }
}
