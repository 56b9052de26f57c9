//! Forwards a request that was admitted, and returns the response as it comes.

mod response_stream;
mod service;
mod settings;
mod tunnel;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use portcullis::Charge;
use portcullis::rules::Rules;
use portcullis_server::listener::{Client, ClientBody};
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use crate::failure::{Failure, Form};
use crate::headers::forwarded::{self, Origin};
use crate::headers::{hop_by_hop, trusted};
use crate::request::{Activity, Prepared, RequestBody, RequestPlace, add_via};
use crate::upstream::{Lease, Reusable, SendError};
use response_stream::{Held, stream};
use tunnel::Tunnel;

pub(super) use service::ProxyService;
pub(super) use settings::{Failures, Host, Shared, pseudonym};

/// The service behind the limits.
#[derive(Clone, Debug)]
pub(super) struct Forward(pub(super) Arc<Shared>);

impl Service<Request<ClientBody>> for Forward {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ClientBody>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let form = Form::of(&parts);
            Ok(match forward(&shared, parts, body).await {
                Ok(response) => response,
                Err(failure) => {
                    shared.failures.log(failure);
                    failure.response(form)
                }
            })
        })
    }
}

async fn forward(
    shared: &Arc<Shared>,
    mut parts: Parts,
    body: ClientBody,
) -> Result<Response<Body>, Failure> {
    let prepared =
        parts.extensions.remove::<Prepared>().expect("requests are prepared before they are charged");
    let place = shared.requests.take(client(shared, &parts)).map_err(|_| Failure::Overloaded)?;
    let place = Arc::new(RequestPlace::new(place));
    let is_upgrade = prepared.removed.is_websocket;
    if is_upgrade && !body.is_end_stream() {
        return Err(Failure::BadRequest("an upgrade with a body"));
    }
    let upgrade = is_upgrade.then(|| parts.extensions.remove::<OnUpgrade>()).flatten();
    // Held to the end, so that the permits of requests in flight can be given to a web socket.
    let charge = parts.extensions.remove::<Charge>();
    let rules = shared.rules.current();
    rewrite(shared, &rules, &mut parts, &prepared);
    let activity = Arc::new(Activity::new());
    let body = RequestBody::new(body, Arc::clone(&activity), Arc::clone(&place), rules);
    let mut request = Request::from_parts(parts, body);
    *request.version_mut() = Version::HTTP_11;
    let (mut response, connection) = send(shared, request, &prepared, &activity, &place).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client), Some(upstream)) = (upgrade, response.extensions_mut().remove::<OnUpgrade>())
        else {
            return Err(Failure::BadResponse);
        };
        let removed = clean(shared, &mut response)?;
        if !removed.is_websocket {
            return Err(Failure::BadResponse);
        }
        hop_by_hop::write(response.headers_mut(), &removed, false);
        let in_flight = charge.as_ref().and_then(Charge::take_permit);
        let tunnel = Tunnel { client, upstream, place, in_flight };
        tokio::spawn(tunnel.run(shared.timeouts.tunnel_idle));
        return Ok(response.map(|_| Body::empty()));
    }
    clean(shared, &mut response)?;
    let idle = shared.timeouts.idle;
    Ok(response.map(|body| stream(body, Held { _place: place, connection }, activity, idle)))
}

/// Whoever takes the place of a request. `None` behind a named proxy that does not say it: all clients of a proxy are not one. Those are of
/// which it says what cannot be read, because a client may have written it.
fn client(shared: &Shared, parts: &Parts) -> Option<Client> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
    let peer = peer.ip().to_canonical();
    let rules = shared.rules.current();
    let clients = rules.client_ip();
    if let Ok(found) = clients.find(peer, &parts.headers) {
        return (found != peer || !clients.trusts(peer)).then(|| Client::of(clients, found));
    }
    let header = clients.header().filter(|header| parts.headers.contains_key(*header));
    header.map(|_| Client::unknown())
}

/// Makes the head of a request that of one to the upstream.
fn rewrite(shared: &Shared, rules: &Rules, parts: &mut Parts, prepared: &Prepared) {
    if let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>().copied() {
        let origin = Origin { peer, scheme: shared.scheme, host: prepared.host.as_ref() };
        trusted::clean(&mut parts.headers, rules, rules.client_ip().trusts(peer.ip()));
        forwarded::write(&mut parts.headers, &origin, rules.client_ip());
    }
    if let Some(encoded) = &prepared.encoded {
        parts.uri = Uri::from(encoded.clone());
    }
    add_via(&mut parts.headers, prepared.version, &shared.pseudonym);
    // A server has sent 100 when it begins to read the body. Sent on, the field would ask for a second one. It stays until here,
    // because the body of a request that is rejected is not read.
    let is_other = |value: &&HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    let others: Vec<_> = parts.headers.get_all(header::EXPECT).iter().filter(is_other).cloned().collect();
    parts.headers.remove(header::EXPECT);
    for other in others {
        parts.headers.append(header::EXPECT, other);
    }
    let host = match &shared.host {
        Host::Client => prepared.host.clone().unwrap_or_else(|| shared.upstream_host.clone()),
        Host::Upstream => shared.upstream_host.clone(),
        Host::Fixed(host) => host.clone(),
    };
    parts.headers.insert(header::HOST, host);
    // What is there is of the client's connection.
    parts.extensions.clear();
}

/// Sends a request on a connection, and waits for the head of its response. A request of which nothing was sent, because an open
/// connection had ended meanwhile, is sent once more on a fresh one; no other is sent again.
async fn send(
    shared: &Arc<Shared>,
    mut request: Request<RequestBody>,
    prepared: &Prepared,
    activity: &Activity,
    place: &RequestPlace,
) -> Result<(Response<Incoming>, Option<Reusable>), Failure> {
    let is_upgrade = prepared.removed.is_websocket;
    let host = request.headers().get(header::HOST).cloned().unwrap_or_else(|| shared.upstream_host.clone());
    let limit = || if activity.is_sent() { shared.timeouts.response } else { shared.timeouts.idle };
    for fresh in [false, true] {
        let lease = timeout(shared.timeouts.connect, shared.pool.lease(is_upgrade, fresh)).await;
        let lease = lease.map_err(|_| Failure::ConnectTimeout)?.map_err(|error| {
            tracing::debug!(%error, "cannot connect to the upstream");
            Failure::Unreachable
        })?;
        address(shared, &mut request, &host, prepared, &lease);
        let may_send_again = lease.is_reused();
        activity.progress();
        let mut sending = pin!(lease.send(request, &shared.pool, place));
        let sent = loop {
            match timeout_at(activity.deadline(limit()), sending.as_mut()).await {
                Ok(sent) => break sent,
                Err(_) if activity.deadline(limit()) > Instant::now() => {}
                Err(_) if activity.is_client_idle() => return Err(Failure::ClientIdle),
                Err(_) => return Err(Failure::NoResponse),
            }
        };
        match sent {
            Ok(response) => return Ok(response),
            Err(SendError::NotSent(unsent)) if may_send_again && !fresh => request = *unsent,
            Err(_) if activity.is_slow() => return Err(Failure::ClientIdle),
            Err(_) if activity.is_broken() => return Err(Failure::BadRequest("the body is malformed")),
            Err(SendError::NotSent(_)) => return Err(Failure::Unreachable),
            Err(SendError::Failed(error)) => {
                tracing::debug!(%error, "the upstream sent no response");
                return Err(Failure::BadResponse);
            }
        }
    }
    Err(Failure::Unreachable)
}

/// Writes what depends on the protocol of the connection.
fn address(
    shared: &Shared,
    request: &mut Request<RequestBody>,
    host: &HeaderValue,
    prepared: &Prepared,
    lease: &Lease,
) {
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let is_http2 = lease.is_http2();
    let mut uri = http::uri::Parts::default();
    uri.path_and_query = Some(path);
    if is_http2 {
        uri.scheme = Some(shared.upstream_scheme.clone());
        uri.authority = host.as_bytes().try_into().ok();
    }
    let has_authority = uri.authority.is_some();
    *request.uri_mut() = Uri::from_parts(uri).expect("a path, or all three parts, are a URI");
    let is_without_body = request.body().is_end_stream();
    let method = request.method().clone();
    let headers = request.headers_mut();
    hop_by_hop::write(headers, &prepared.removed, is_http2);
    if is_http2 {
        headers.remove(header::TRANSFER_ENCODING);
        if has_authority {
            headers.remove(header::HOST);
        }
        return;
    }
    headers.insert(header::HOST, host.clone());
    if headers.contains_key(header::CONTENT_LENGTH) {
        return;
    }
    if !is_without_body {
        // Said here, because hyper sends a GET of unknown length without its body otherwise.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    } else if matches!(method, Method::POST | Method::PUT | Method::PATCH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// Removes from a response what concerns the connection to the upstream.
fn clean(shared: &Shared, response: &mut Response<Incoming>) -> Result<hop_by_hop::Removed, Failure> {
    let received = response.version();
    *response.version_mut() = Version::HTTP_11;
    let removed = hop_by_hop::remove(response.headers_mut()).map_err(|_| Failure::BadResponse)?;
    add_via(response.headers_mut(), received, &shared.pseudonym);
    Ok(removed)
}
