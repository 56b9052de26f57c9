//! Refuses what a page of any site can send to this machine by the browser of its user.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, Version};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use portcullis::admin::HostList;

/// Serves gRPC alone. Browsers send neither HTTP/2 without TLS nor this content type without asking before.
pub(crate) fn only_grpc(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| match refusal(&request) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }))
}

fn refusal(request: &Request) -> Option<(StatusCode, &'static str)> {
    if request.version() < Version::HTTP_2 {
        return Some((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC is spoken over HTTP/2\n"));
    }
    let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_grpc =
        content_type.get(..GRPC.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(GRPC.as_bytes()));
    (!is_grpc)
        .then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type has to be application/grpc\n"))
}

const GRPC: &str = "application/grpc";

/// Refuses requests of this machine over HTTP/1 that name another host: the page of a site whose name leads to this machine could read
/// the answers (DNS rebinding). Checks are not judged, because their headers are those of the client that a proxy asks about.
pub(crate) fn only_hosts(router: Router, hosts: &HostList) -> Router {
    let hosts = hosts.clone();
    router.layer(from_fn(move |request: Request, next: Next| {
        let is_refused = !request.uri().path().starts_with(CHECKS)
            && request.version() < Version::HTTP_2
            && is_of_this_machine(&request)
            && !names_only(&request, &hosts);
        async move {
            if is_refused {
                return (StatusCode::MISDIRECTED_REQUEST, UNKNOWN).into_response();
            }
            next.run(request).await
        }
    }))
}

fn is_of_this_machine(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback())
}

/// Whether all hosts that a request names are known here. Browsers name one.
fn names_only(request: &Request, hosts: &HostList) -> bool {
    let known = |host: &Authority| hosts.lists(host) || is_loopback(host);
    let named = |host: &HeaderValue| Authority::try_from(host.as_bytes()).is_ok_and(|host| known(&host));
    request.headers().get_all(HOST).iter().all(named) && request.uri().authority().is_none_or(known)
}

fn is_loopback(host: &Authority) -> bool {
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse();
    !host.as_str().contains('@')
        && (name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address: IpAddr| address.is_loopback()))
}

const CHECKS: &str = "/check/";
const UNKNOWN: &str = "the host of the request is none of this server: name it with --http-host, in code with Server::http_hosts\n";

#[cfg(test)]
mod tests;
