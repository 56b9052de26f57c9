//! Requests by the gRPC method that they call.

use std::str::FromStr;

use http::request::Parts;
use http::{HeaderValue, Method, header};
use portcullis_core::or_panic;

use super::{MatcherError, PathReadings, PlainPath, RequestMatcher, RequestPath, Undecided};

/// Matches calls of a gRPC method, or of all methods of a service.
///
/// A call is a `POST` with a content type of gRPC or gRPC-Web, and the path `/package.Service/Method`. A request for that path
/// that is not such a call is [undecided](super::Undecided), because Tonic runs a call whatever its method and its
/// content type.
///
/// ```
/// use http::Request;
/// use portcullis::layer::{GrpcMethod, RequestMatcher, Undecided};
///
/// let health = GrpcMethod::service("grpc.health.v1.Health");
/// let request = Request::post("/grpc.health.v1.Health/Check");
/// let (parts, ()) = request.header("content-type", "application/grpc").body(())?.into_parts();
/// assert_eq!(health.matches(&parts), Ok(true));
/// assert_eq!(GrpcMethod::named("grpc.health.v1.Health/Watch").matches(&parts), Ok(false));
///
/// let (parts, ()) = Request::get("/grpc.health.v1.Health/Check").body(())?.into_parts();
/// assert_eq!(health.matches(&parts), Err(Undecided::Ambiguous));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GrpcMethod {
    path: RequestPath,
}

impl GrpcMethod {
    /// Matches calls of one method, such as `grpc.health.v1.Health/Check`. A name from configuration or input is parsed.
    ///
    /// # Panics
    ///
    /// If `method` does not have the form `package.Service/Method`.
    #[track_caller]
    pub fn named(method: &str) -> Self {
        or_panic(parsed(method, true))
    }

    /// Matches calls of all methods of a service, such as `grpc.health.v1.Health`. A name from configuration or input is parsed.
    ///
    /// # Panics
    ///
    /// If `service` does not have the form `package.Service`.
    #[track_caller]
    pub fn service(service: &str) -> Self {
        or_panic(parsed(service, false))
    }
}

impl FromStr for GrpcMethod {
    type Err = MatcherError;

    /// Parses the name of a method, `package.Service/Method`, or of a service, `package.Service`, for all its methods.
    ///
    /// ```
    /// use portcullis::layer::GrpcMethod;
    ///
    /// let is_name = |name: &str| name.parse::<GrpcMethod>().is_ok();
    /// assert!(is_name("grpc.health.v1.Health/Check") && !is_name("/grpc.health.v1.Health/Check"));
    /// ```
    fn from_str(name: &str) -> Result<Self, MatcherError> {
        parsed(name, name.contains('/'))
    }
}

fn parsed(name: &str, is_method: bool) -> Result<GrpcMethod, MatcherError> {
    let form = if is_method { "`package.Service/Method`" } else { "`package.Service`" };
    let has_form = !name.is_empty() && name.matches('/').count() == usize::from(is_method);
    match format!("/{name}").parse::<PlainPath>() {
        Ok(path) if has_form && is_method => Ok(GrpcMethod { path: RequestPath::exact(&path) }),
        Ok(path) if has_form => Ok(GrpcMethod { path: RequestPath::prefix(&path) }),
        _ => Err(MatcherError::GrpcName { name: name.to_owned(), form }),
    }
}

impl RequestMatcher for GrpcMethod {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        self.matches_with(&PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        if !self.path.matches_with(request)? {
            return Ok(false);
        }
        let is_call =
            request.path().matches('/').count() == 2 && grpc_content_type(request.parts()).is_some();
        if is_call { Ok(true) } else { Err(Undecided::Ambiguous) }
    }
}

/// The content type of the response to a gRPC request, which contains no bytes from the client. A request is gRPC only if it is
/// a POST, so that a `Content-Type` on another method does not turn a 429 into a 200.
///
/// Source: gRPC over HTTP2, "Requests"; gRPC Web, "Protocol differences".
pub fn grpc_content_type(request: &Parts) -> Option<HeaderValue> {
    if request.method != Method::POST {
        return None;
    }
    let value = request.headers.get(header::CONTENT_TYPE)?.as_bytes();
    let is = |flavour: &&str| {
        value.split_at_checked(flavour.len()).is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(flavour.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';'))
        })
    };
    FLAVOURS.into_iter().find(is).map(HeaderValue::from_static)
}

const FLAVOURS: [&str; 3] = ["application/grpc", "application/grpc-web", "application/grpc-web-text"];

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;

    fn parts(method: Method, path: &str, content_type: &str) -> Parts {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_a_certain_call_matches() {
        let [method, service] = [GrpcMethod::named("a.B/C"), GrpcMethod::service("a.B")];
        let undecided = || Err(Undecided::Ambiguous);
        for (path, by_method, by_service) in [
            ("/a.B/C", Ok(true), Ok(true)),
            ("/a.B/D", Ok(false), Ok(true)),
            ("/a.B", Ok(false), undecided()),
            ("/a.B/C/", undecided(), undecided()),
            ("/a.B/C/D", Ok(false), undecided()),
            ("//a.B/C", undecided(), undecided()),
            ("/a%2eB/C", undecided(), undecided()),
            ("/A.b/c", undecided(), undecided()),
            ("/a.BC/C", Ok(false), Ok(false)),
            ("/x/../a.B/C", undecided(), undecided()),
        ] {
            let parts = parts(Method::POST, path, "application/grpc+proto");
            assert_eq!((method.matches(&parts), service.matches(&parts)), (by_method, by_service), "{path}");
        }
    }

    #[test]
    fn what_looks_like_another_request_is_undecided() {
        let service = GrpcMethod::service("a.B");
        for (method, content_type) in [
            (Method::POST, "application/json"),
            (Method::POST, "application/grpcish"),
            (Method::GET, "application/grpc"),
            (Method::OPTIONS, ""),
        ] {
            let parts = parts(method, "/a.B/C", content_type);
            assert_eq!(service.matches(&parts), Err(Undecided::Ambiguous), "{content_type}");
        }
        for content_type in ["application/grpc", "Application/gRPC-Web-Text+proto"] {
            assert_eq!(service.matches(&parts(Method::POST, "/a.B/C", content_type)), Ok(true));
        }
    }

    #[test]
    fn a_name_has_its_form() {
        for name in ["", "a.B", "/a.B/C", "a.B/C/D", "a.B/", "a.B/..", "a.B/%43"] {
            let error = parsed(name, true).unwrap_err().to_string();
            assert_eq!(error, format!("{name:?} does not have the form `package.Service/Method`"));
        }
        for name in ["", "/a.B", "a.B/C", "a.B/", "..", "a b"] {
            let error = parsed(name, false).unwrap_err().to_string();
            assert_eq!(error, format!("{name:?} does not have the form `package.Service`"));
        }
        let is_named = |name: &str| name.parse::<GrpcMethod>().is_ok();
        assert_eq!(["a.B", "a.B/C", "a.B/", "", "/a.B"].map(is_named), [true, true, false, false, false]);
    }

    #[test]
    fn grpc_is_a_post_with_a_grpc_content_type() {
        let parts = |method: &str, value: &'static str| {
            let request = http::Request::builder().method(method).header(header::CONTENT_TYPE, value);
            request.body(()).unwrap().into_parts().0
        };
        for (value, answer) in [
            ("application/grpc", Some("application/grpc")),
            ("application/grpc+proto", Some("application/grpc")),
            ("Application/gRPC;x=<script>", Some("application/grpc")),
            ("application/grpc-web", Some("application/grpc-web")),
            ("application/grpc-web+proto", Some("application/grpc-web")),
            ("application/grpc-web-text+proto", Some("application/grpc-web-text")),
            ("application/grpc-web;x=y", Some("application/grpc-web")),
            ("application/grpc-web-text", Some("application/grpc-web-text")),
            ("application/grpc-web-text;x=y", Some("application/grpc-web-text")),
            ("application/grpc-webinar", None),
            ("application/grpc-web-", None),
            ("application/grpc-web-textual", None),
            ("application/grpc-other", None),
            ("application/grpcish", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(
                grpc_content_type(&parts("POST", value)),
                answer.map(HeaderValue::from_static),
                "{value}"
            );
            for method in ["GET", "HEAD", "PUT", "OPTIONS", "CONNECT", "post"] {
                assert_eq!(grpc_content_type(&parts(method, value)), None, "{method} {value}");
            }
        }
        assert_eq!(grpc_content_type(&http::Request::post("/").body(()).unwrap().into_parts().0), None);
    }
}
