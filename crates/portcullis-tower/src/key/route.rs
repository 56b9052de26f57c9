//! Requests by where they go.

use http::Method;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// Where a request goes, in words that the server chose: a part of an identity more often than one by itself.
///
/// Never the path as it was sent: of those a client can make up any number, and each would have a fresh budget.
///
/// ```
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{Identity, KeyExtractor, Route};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::get("/users/17").body(())?.into_parts();
/// assert_eq!(Route::http_method().extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// // Nobody has matched this path.
/// # #[cfg(feature = "axum")]
/// assert_eq!(Route::matched_path().extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Route {
    part: Part,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    #[cfg(feature = "axum")]
    MatchedPath,
    HttpMethod,
    GrpcService,
    GrpcMethod,
}

impl Route {
    /// The path of the Axum route that matched, as it was written: `/users/{id}`.
    ///
    /// Where none has matched the identity is missing: in the fallback, around a whole `Router`, inside of
    /// `nest_service`'s services where Axum has none to tell, and without Axum. With
    /// [`OnMissing::Shared`](crate::OnMissing::Shared) all of them share one budget.
    #[cfg(feature = "axum")]
    pub const fn matched_path() -> Self {
        Self { part: Part::MatchedPath }
    }

    /// The method of the request. All that are not in RFC 9110 or `PATCH` count as one: a client can make up any.
    pub const fn http_method() -> Self {
        Self { part: Part::HttpMethod }
    }

    /// The service of a gRPC call, as in `helloworld.Greeter`; missing in a path that is not `/service/method`.
    ///
    /// It is what the client calls, whether there is such a service or not: the layer goes around services that exist,
    /// or beside a policy by the caller.
    pub const fn grpc_service() -> Self {
        Self { part: Part::GrpcService }
    }

    /// The service and the method of a gRPC call, as in `helloworld.Greeter/SayHello`; else like
    /// [`grpc_service`](Self::grpc_service).
    pub const fn grpc_method() -> Self {
        Self { part: Part::GrpcMethod }
    }
}

impl KeyExtractor for Route {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let (tag, value) = match self.part {
            #[cfg(feature = "axum")]
            Part::MatchedPath => (
                "route",
                parts.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str),
            ),
            Part::HttpMethod => ("http method", Some(known(&parts.method))),
            Part::GrpcService => ("grpc service", grpc_call(parts.uri.path()).map(|(service, _)| service)),
            Part::GrpcMethod => ("grpc method", grpc_call(parts.uri.path()).map(|_| &parts.uri.path()[1..])),
        };
        let Some(value) = value else { return Ok(Identity::Missing) };
        key.shared_part(tag, value.as_bytes());
        Ok(Identity::Found)
    }
}

fn known(method: &Method) -> &str {
    const KNOWN: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "" }
}

/// `"/" Service-Name "/" method-name`
///
/// Source: gRPC over HTTP2, "Requests".
fn grpc_call(path: &str) -> Option<(&str, &str)> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let is_call = !service.is_empty() && !method.is_empty() && !method.contains('/');
    is_call.then_some((service, method))
}
