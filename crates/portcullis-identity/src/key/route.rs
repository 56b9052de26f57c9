//! Keys by route.

use std::borrow::Cow;

use http::Method;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};
use crate::method::{handling_method, is_same};
use crate::written_path::is_plain;
#[cfg(feature = "axum")]
use portcullis_log::{LogThrottle, codes};

/// The route of a request, from a set of values that the server defines. Usually a part of an identity, with
/// [`and`](KeyExtractor::and).
///
/// The path itself is a [`PathKey`](crate::PathKey): a client can invent any number of paths, and each has a new budget.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Identity, KeyExtractor, Route};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::get("/users/17").body(())?.into_parts();
/// assert_eq!(Route::http_method().extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// // No router has matched this path.
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
    /// Uses the path of the Axum route that matched, as it was defined: `/users/{id}`.
    ///
    /// If no route has matched, the identity is missing: in the fallback, around a whole `Router`, inside of services of
    /// `nest_service` where Axum provides no path, and without Axum. With
    /// `OnMissing::Shared` all of these requests share one budget. A request that no router has seen yet is
    /// logged, at most once an hour, because the layer is usually meant to be in the router.
    #[cfg(feature = "axum")]
    pub const fn matched_path() -> Self {
        Self { part: Part::MatchedPath }
    }

    /// Uses the method of the request, in any case; `HEAD`, and the handshake of a web socket over HTTP/2, are `GET`. All methods except
    /// `PATCH` and those of RFC 9110 count as one, because a client can invent methods.
    pub const fn http_method() -> Self {
        Self { part: Part::HttpMethod }
    }

    /// Uses the service of a gRPC call, as in `helloworld.Greeter`; missing in a path that is not `/service/method`, or that can be read in
    /// [another way](crate::matching::RequestPath#readings) as well.
    ///
    /// The client chooses the value, whether the service exists or not: put the layer around existing services, or combine it
    /// with a policy by client.
    pub const fn grpc_service() -> Self {
        Self { part: Part::GrpcService }
    }

    /// Uses the service and the method of a gRPC call, as in `helloworld.Greeter/SayHello`; otherwise like
    /// [`grpc_service`](Self::grpc_service).
    pub const fn grpc_method() -> Self {
        Self { part: Part::GrpcMethod }
    }

    const fn tag(self) -> &'static str {
        match self.part {
            #[cfg(feature = "axum")]
            Part::MatchedPath => "route",
            Part::HttpMethod => "http method",
            Part::GrpcService => "grpc service",
            Part::GrpcMethod => "grpc method",
        }
    }
}

impl KeyExtractor for Route {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let value = match self.part {
            #[cfg(feature = "axum")]
            Part::MatchedPath => matched_path(parts),
            Part::HttpMethod => Some(known(handling_method(parts))),
            Part::GrpcService => grpc_call(parts).map(|(service, _, _)| service),
            Part::GrpcMethod => grpc_call(parts).map(|(_, _, call)| call),
        };
        let Some(value) = value else { return Ok(Identity::Missing) };
        key.shared_part(self.tag(), value.as_bytes());
        Ok(Identity::Found)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self.part {
            #[cfg(feature = "axum")]
            Part::MatchedPath => "route",
            Part::HttpMethod => "method",
            Part::GrpcService => "grpc_service",
            Part::GrpcMethod => "grpc_method",
        })
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(*self)
    }
}

impl NamedPart for Route {
    fn name(&self) -> Cow<'_, str> {
        self.description()
    }

    fn example(&self) -> Cow<'_, str> {
        match self.part {
            #[cfg(feature = "axum")]
            Part::MatchedPath => "/users/{id}",
            Part::HttpMethod => "GET",
            Part::GrpcService => "helloworld.Greeter",
            Part::GrpcMethod => "helloworld.Greeter/SayHello",
        }
        .into()
    }

    fn tags(&self) -> Vec<&str> {
        vec![self.tag()]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        let text = str::from_utf8(value).unwrap_or_default();
        let value = match self.part {
            Part::HttpMethod if text.is_empty() => Some(""),
            Part::HttpMethod => text.parse().ok().map(|method| match known(&method) {
                _ if is_same(&method, &Method::HEAD) => "GET",
                known => known,
            }),
            _ => Some(text).filter(|text| !text.is_empty()),
        };
        let value = value.ok_or_else(|| KeyError::client("is no value that a request has"))?;
        key.shared_part(self.tag(), value.as_bytes());
        Ok(())
    }
}

#[cfg(feature = "axum")]
fn matched_path(parts: &Parts) -> Option<&str> {
    use axum::extract::{MatchedPath, OriginalUri};

    static NO_ROUTER: LogThrottle = LogThrottle::hourly();

    let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    // A router leaves the URI in a request before it looks for a route.
    if route.is_none() && parts.extensions.get::<OriginalUri>().is_none() {
        NO_ROUTER.count(0, None, || {
            |counted| {
                tracing::warn!(
                    code = %codes::NO_ROUTE,
                    requests = counted.events,
                    "Route::matched_path() finds no route, because no Axum router has seen the request: put the layer in the router, \
                     with `Router::layer` or `Router::route_layer`, instead of around it; counted since the last such line"
                );
            }
        });
    }
    route
}

fn known(method: &Method) -> &'static str {
    static KNOWN: [Method; 8] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ];
    KNOWN.iter().find(|known| is_same(method, known)).map_or("", Method::as_str)
}

/// The service, the method, and both. `None` for a path that can be read in another way as well.
///
/// `"/" Service-Name "/" method-name`
///
/// Source: gRPC over HTTP2, "Requests".
fn grpc_call(parts: &Parts) -> Option<(&str, &str, &str)> {
    let path = parts.uri.path();
    let call = path.strip_prefix('/').filter(|_| is_plain(path))?;
    let (service, method) = call.split_once('/')?;
    (!method.contains('/')).then_some((service, method, call))
}
