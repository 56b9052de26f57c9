//! The requests and responses of `reqwest`.

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use reqwest::{Request, Response};

use crate::message::sealed::{Head, Split};
use crate::message::{OutgoingRequest, OutgoingResponse};

impl OutgoingRequest for Request {}

impl Split for Request {
    /// The request without its headers.
    type Rest = Self;

    /// Extractors see the method, the URL, the version and the headers. A request of `reqwest` shows no extensions.
    fn split(mut self) -> (Parts, Self) {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = self.method().clone();
        // A URL that is no URI has no host either.
        parts.uri = self.url().as_str().parse().unwrap_or_default();
        parts.version = self.version();
        parts.headers = std::mem::take(self.headers_mut());
        (parts, self)
    }

    fn join(parts: Parts, mut rest: Self) -> Self {
        *rest.headers_mut() = parts.headers;
        rest
    }
}

impl OutgoingResponse for Response {}

impl Head for Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}
