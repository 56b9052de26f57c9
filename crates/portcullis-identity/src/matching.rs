//! Matchers: which requests an exemption or a list of a layer names.
//!
//! A matcher goes to `RateLimitLayer::except`, `RateLimitLayer::deny` or `RateLimitLayer::only`:
//!
//! | matcher | requests |
//! |---|---|
//! | [`Network`] | of clients in these networks, by the address that a [`ClientIp`](crate::ClientIp) finds |
//! | [`RequestPath`] | for this path, for the paths below it, or for this route of Axum |
//! | [`Method`] | with this HTTP method |
//! | [`GrpcMethod`] | that call this gRPC method, or any method of a service |
//! | [`RequestValue`] | with a header or a parameter of the query, which is present, absent, equal to a text or begins with one |
//! | [`ExtensionValue`] | with a value in their extensions that a closure accepts: an account found by authentication |
//! | a closure `Fn(&Parts) -> bool` | that it accepts |
//! | an array or a vector of matchers | that one of them accepts |
//!
//! [`and`](RequestMatcher::and) combines two matchers, and [`not`](RequestMatcher::not) inverts one.
//!
//! # Undecided requests
//!
//! A matcher may be unable to compare a request: the address cannot be determined, or the path or the method can be read in more than one way.
//! Such a request is never exempt: it is rejected where a list denies, and limited where a list limits or
//! exempts.
//!
//! ```
//! use http::{Method, Request};
//! use portcullis::layer::{RequestMatcher, RequestPath, Undecided};
//!
//! let probe = RequestPath::exact("/health").and(Method::GET);
//! let matches = |method: Method, path: &str| {
//!     let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
//!     probe.matches(&parts)
//! };
//! assert_eq!(matches(Method::GET, "/health"), Ok(true));
//! assert_eq!(matches(Method::POST, "/health"), Ok(false));
//! assert_eq!(matches(Method::GET, "/healthy"), Ok(false));
//! assert_eq!(matches(Method::GET, "/health/../admin"), Err(Undecided::Ambiguous));
//! ```
//!

mod combine;
mod error;
mod extension;
mod grpc;
mod network;
mod path;
mod value;

use http::Method;
use http::request::Parts;

pub use combine::{Both, Inverted};
pub use error::{MatcherError, Undecided};
pub use extension::ExtensionValue;
pub use grpc::{GrpcMethod, grpc_content_type};
pub use network::Network;
pub(crate) use path::{PathText, ReadSegment, said_alike, trimmed};
pub use path::{PlainPath, RequestPath, matched_path};
pub use value::RequestValue;

pub use crate::written_path::original_path;

#[doc(hidden)]
pub use crate::host::{hosts, is_host_name};
#[doc(hidden)]
pub use crate::method::{is_taken_for, may_be};
pub use path::{PathPattern, PatternError};
#[doc(hidden)]
pub use path::{PathReading, PathReadings, PatternSegment};
#[doc(hidden)]
pub use value::folded_header;

/// Decides whether a request is one of those that an exemption or a list of a layer names.
///
/// Closures `Fn(&Parts) -> bool` are matchers. **A client chooses everything in a request except its extensions**: a closure that
/// exempts by a header, a query parameter, a cookie or the host exempts every client that sends it. So no extractor of a
/// key is a matcher:
///
/// ```compile_fail,E0277
/// use portcullis::key::Header;
/// use portcullis::layer::RequestMatcher;
///
/// fn exempt(requests: impl RequestMatcher) {}
/// exempt(Header::named("x-internal"));
/// ```
///
/// A matcher is called for each request, before any look-up and any call of the store, by the task that handles the
/// request. It must not block. If it panics, the panic propagates to the caller of the service: the request is neither
/// admitted nor charged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not match requests",
    label = "not a `RequestMatcher`",
    note = "pass a matcher, such as `RequestPath::exact(\"/health\")` or `Network::of(&clients, [\"10.0.0.0/8\"])`, or a closure \
            `|parts: &Parts|` that returns a `bool`",
    note = "an extractor of a key is not a matcher, because clients choose headers, cookies and queries"
)]
pub trait RequestMatcher: Send + Sync + 'static {
    /// Returns whether the request is one of those that are named.
    ///
    /// # Errors
    ///
    /// If the request cannot be compared. It is then treated as [undecided](Undecided).
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided>;

    /// Returns whether a client can choose, with each request anew, whether it matches, by what it writes and nothing verifies. Such a matcher neither
    /// exempts requests nor limits them alone.
    ///
    /// `false` by default; [`RequestValue`] returns `true`, unless it is trusted. Combinations return `true` if a part does.
    fn is_chosen_by_client(&self) -> bool {
        false
    }

    /// Like [`matches`](Self::matches). The matchers of a request share the readings of its path.
    #[doc(hidden)]
    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        self.matches(request.parts())
    }

    /// Matches the requests that both match.
    ///
    /// If one does not match, neither does the combination; otherwise it is undecided if one of the two is.
    fn and<M: RequestMatcher>(self, other: M) -> Both<Self, M>
    where
        Self: Sized,
    {
        Both::new(self, other)
    }

    /// Matches the requests that this does not match. A request that cannot be compared stays undecided.
    ///
    /// With `deny` it makes a list of those that are allowed:
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::layer::{Network, RequestMatcher, RequestPath};
    ///
    /// let clients = ClientIp::peer();
    /// let from_outside = Network::of(&clients, ["10.0.0.0/8"]).not();
    /// let denied = RequestPath::prefix("/admin").and(from_outside);
    /// # let _ = denied;
    /// ```
    fn not(self) -> Inverted<Self>
    where
        Self: Sized,
    {
        Inverted::new(self)
    }
}

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F: Fn(&Parts) -> bool + Send + Sync + 'static> RequestMatcher for F {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        Ok(self(parts))
    }
}

/// Matches requests with this method, in upper and lower case as it is.
///
/// `HEAD`, and the handshake of a web socket over HTTP/2, are not told apart from `GET`, by whose handler they are answered: they are limited and
/// denied with it, and not exempt with it. So is the method in another case, such as `get`, which is another method in HTTP and which a server may
/// take for it. A server need not respect the method: Tonic runs a call whatever it is.
impl RequestMatcher for Method {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        if parts.method == *self {
            return Ok(true);
        }
        if may_be(self, parts) { Err(Undecided::Ambiguous) } else { Ok(false) }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn get_is_not_told_apart_from_what_it_answers() {
        let matches = |of: Method, method: &str, uri: &str| {
            let (parts, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            of.matches(&parts)
        };
        assert_eq!(matches(Method::GET, "GET", "/ws"), Ok(true));
        assert_eq!(matches(Method::GET, "HEAD", "/ws"), Err(Undecided::Ambiguous));
        // A web socket over HTTP/2, and a tunnel.
        assert_eq!(matches(Method::GET, "CONNECT", "https://a.example/ws"), Err(Undecided::Ambiguous));
        assert_eq!(matches(Method::GET, "CONNECT", "a.example:443"), Ok(false));
        assert_eq!(matches(Method::CONNECT, "CONNECT", "https://a.example/ws"), Ok(true));
        assert_eq!(matches(Method::HEAD, "HEAD", "/ws"), Ok(true));
        assert_eq!(matches(Method::POST, "HEAD", "/ws"), Ok(false));
    }

    #[test]
    fn other_case_of_method_is_undecided() {
        let matches = |of: &str, method: &str| {
            let (parts, ()) = Request::builder().method(method).uri("/").body(()).unwrap().into_parts();
            of.parse::<Method>().unwrap().matches(&parts)
        };
        for (of, method) in [
            ("GET", "get"),
            ("GET", "Head"),
            ("GET", "connect"),
            ("get", "GET"),
            ("get", "HEAD"),
            ("POST", "pOST"),
        ] {
            assert_eq!(matches(of, method), Err(Undecided::Ambiguous), "{of} {method}");
        }
        for (of, method) in [("get", "get"), ("PURGE", "PURGE")] {
            assert_eq!(matches(of, method), Ok(true), "{of} {method}");
        }
        for (of, method) in [("GET", "gets"), ("POST", "get"), ("HEAD", "get")] {
            assert_eq!(matches(of, method), Ok(false), "{of} {method}");
        }
    }
}
