//! Requests and responses of HTTP clients.

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};

/// A request that a client sends: `http::Request` and, with the feature `reqwest`, `reqwest::Request`.
///
/// It is sealed, and its methods are not public.
pub trait OutgoingRequest: sealed::Split {}

/// An answer that a client gets: `http::Response` and, with the feature `reqwest`, `reqwest::Response`.
///
/// It is sealed, and its methods are not public.
pub trait OutgoingResponse: sealed::Head {}

pub(crate) mod sealed {
    use super::{HeaderMap, Parts, StatusCode};

    /// A request whose head is read, and that is not changed: nothing is copied, the body least of all.
    #[expect(unnameable_types, reason = "no other crate implements it")]
    pub trait Split: Sized {
        type Rest;

        /// The head as extractors of keys see it, and the rest.
        fn split(self) -> (Parts, Self::Rest);

        fn join(parts: Parts, rest: Self::Rest) -> Self;
    }

    /// An answer whose head is read.
    #[expect(unnameable_types, reason = "no other crate implements it")]
    pub trait Head {
        fn status(&self) -> StatusCode;
        fn headers(&self) -> &HeaderMap;
    }
}

impl<B> OutgoingRequest for Request<B> {}

impl<B> sealed::Split for Request<B> {
    type Rest = B;

    fn split(self) -> (Parts, B) {
        self.into_parts()
    }

    fn join(parts: Parts, body: B) -> Self {
        Self::from_parts(parts, body)
    }
}

impl<B> OutgoingResponse for Response<B> {}

impl<B> sealed::Head for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}
