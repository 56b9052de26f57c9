//! The responses of the proxy itself: problem details, or a gRPC status.
//!
//! Source: RFC 9457, section 3; gRPC over HTTP2, "Responses".

use axum::body::Body;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

/// Why a request got no response of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request cannot be forwarded.
    BadRequest(&'static str),
    /// A method or a transfer coding that the proxy does not have.
    NotImplemented(&'static str),
    /// The request has passed this proxy, or too many.
    Loop,
    /// The client stopped sending its body, or sends it too slowly.
    ClientIdle,
    /// As many requests as the upstream may have are with it.
    Overloaded,
    /// No connection to the upstream.
    Unreachable,
    /// No connection in time.
    ConnectTimeout,
    /// The connection ended, or what came was not HTTP.
    BadResponse,
    /// No response in time.
    NoResponse,
}

impl Failure {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::ClientIdle => StatusCode::REQUEST_TIMEOUT,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable | Self::BadResponse => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::NoResponse => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Source: grpc.io, "Status codes and their use in gRPC". What was certainly not sent is UNAVAILABLE, which clients may retry.
    fn grpc_status(self) -> &'static str {
        match self {
            Self::BadRequest(_) => "13",
            Self::NotImplemented(_) => "12",
            Self::Loop => "9",
            Self::ClientIdle | Self::NoResponse => "4",
            Self::Overloaded | Self::Unreachable | Self::ConnectTimeout | Self::BadResponse => "14",
        }
    }

    /// Whether the upstream is the reason, and not the client.
    pub(super) fn is_of_upstream(self) -> bool {
        matches!(
            self,
            Self::Overloaded
                | Self::Unreachable
                | Self::ConnectTimeout
                | Self::BadResponse
                | Self::NoResponse
        )
    }

    /// Nothing about the network behind the proxy.
    pub(super) fn detail(self) -> &'static str {
        match self {
            Self::BadRequest(detail) | Self::NotImplemented(detail) => detail,
            Self::Loop => "the request has passed this proxy before, or too many proxies",
            Self::ClientIdle => "the client stopped sending the request, or sends it too slowly",
            Self::Overloaded => "too many requests are with the upstream",
            Self::Unreachable => "the upstream cannot be reached",
            Self::ConnectTimeout => "the upstream did not accept a connection in time",
            Self::BadResponse => "the upstream did not send a valid response",
            Self::NoResponse => "the upstream did not respond in time",
        }
    }

    /// The response to a request that expects this form.
    pub(super) fn response(self, form: Form) -> Response<Body> {
        let is_head = form == Form::Head;
        if let Form::Grpc(content_type) = form {
            let mut response = Response::new(Body::empty());
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, content_type);
            headers.insert("grpc-status", HeaderValue::from_static(self.grpc_status()));
            headers.insert("grpc-message", HeaderValue::from_static(self.detail()));
            return response;
        }
        let status = self.status();
        let title = status.canonical_reason().unwrap_or_default();
        let problem =
            Problem { r#type: "about:blank", title, status: status.as_u16(), detail: self.detail() };
        let mut body = serde_json::to_vec(&problem).expect("numbers and strings are JSON");
        body.push(b'\n');
        let length = HeaderValue::from(body.len());
        // Over HTTP/2 nothing else removes the body of a response to HEAD.
        let body = if is_head { Body::empty() } else { Body::from(body) };
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
        *response.status_mut() = status;
        let problem_json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem_json);
        response
    }
}

#[derive(Serialize)]
struct Problem {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'static str,
}

/// What a client can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Problem,
    /// A response without its body.
    Head,
    /// A status in trailers, under this content type.
    Grpc(HeaderValue),
}

impl Form {
    pub(super) fn of(request: &Parts) -> Self {
        match grpc_type(request) {
            Some(content_type) => Self::Grpc(content_type),
            None if request.method == Method::HEAD => Self::Head,
            None => Self::Problem,
        }
    }
}

/// The content type of the response to a gRPC request; `None` for other requests. It has no bytes of the client.
fn grpc_type(request: &Parts) -> Option<HeaderValue> {
    if request.method != Method::POST {
        return None;
    }
    let value = request.headers.get(header::CONTENT_TYPE)?.as_bytes();
    let is = |flavour: &&str| {
        value.split_at_checked(flavour.len()).is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(flavour.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';'))
        })
    };
    ["application/grpc", "application/grpc-web", "application/grpc-web-text"]
        .into_iter()
        .find(is)
        .map(HeaderValue::from_static)
}
