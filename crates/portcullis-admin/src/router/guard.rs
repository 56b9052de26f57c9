//! What every request has to pass.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};

use crate::access::Refused;
use crate::access::hosts::{is_same_origin, named_host};
use crate::problem::Problem;
use crate::state::AdminState;

/// Authorizes a request before anything else about it is looked at, and refuses those that a page of another site may have caused.
pub(crate) async fn authorize(
    State(state): State<Arc<AdminState>>,
    request: Request<Body>,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let (status, detail) = match state.options.authorize.actor(&parts).await {
        Some(Ok(actor)) => {
            check_host(&state, &parts)?;
            check_origin(&parts)?;
            check_type(&parts)?;
            parts.extensions.insert(actor);
            return Ok(next.run(Request::from_parts(parts, body)).await);
        }
        None => (StatusCode::INTERNAL_SERVER_ERROR, "the request could not be authorized"),
        Some(Err(Refused::Unauthenticated)) => (StatusCode::UNAUTHORIZED, "the request is not authenticated"),
        Some(Err(Refused::Forbidden)) => (StatusCode::FORBIDDEN, "the caller may not use this API"),
    };
    Err(Problem::new(status, detail))
}

/// Refuses a request that does not name a host of the list.
pub(crate) async fn listed_host(
    State(state): State<Arc<AdminState>>,
    request: Request<Body>,
    next: Next,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    check_host(&state, &parts)?;
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// What all responses have, unless the page sets its own.
pub(crate) async fn headers(request: Request<Body>, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn check_host(state: &AdminState, parts: &Parts) -> Result<(), Problem> {
    if state.options.hosts.includes(parts) {
        return Ok(());
    }
    let detail = "the host of the request is not one of this API: name it (`--admin-host` of the command, `Admin::hosts` in code)";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).with_field("host"))
}

/// Browsers send `origin` with each POST that a page causes, and `sec-fetch-site` with every request over HTTPS or to this machine; no page can
/// change them. Other programs send neither. A page can cause a GET without both over plain HTTP, and not read its answer.
fn check_origin(parts: &Parts) -> Result<(), Problem> {
    let is_own = |site: &HeaderValue| site == "same-origin" || site == "none";
    if !parts.headers.get_all(SEC_FETCH_SITE).iter().all(is_own) {
        let detail = "a page of another site has caused the request";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail).with_field("sec-fetch-site"));
    }
    let host = named_host(parts);
    let is_same = |origin: &HeaderValue| host.as_ref().is_some_and(|host| is_same_origin(origin, host));
    if !parts.headers.get_all(header::ORIGIN).iter().all(is_same) {
        let detail = "the origin is not that of the host: a page of another site has caused the request, or a proxy replaces `host`";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail).with_field("origin"));
    }
    Ok(())
}

/// A form of another site cannot have this type.
fn check_type(parts: &Parts) -> Result<(), Problem> {
    if parts.method != Method::POST {
        return Ok(());
    }
    let mut types = parts.headers.get_all(header::CONTENT_TYPE).iter();
    let (first, second) = (types.next().and_then(|value| value.to_str().ok()), types.next());
    let essence = first.and_then(|value| value.split(';').next()).map(str::trim);
    if second.is_none() && essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let detail = "the body must be JSON, with `content-type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).with_field("content-type"))
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
