//! A route that calls another server, under a limit on outgoing requests.
//!
//! `GET /call` sends a request to the URL in `x-target`, of which all processes have BURST together, and reports what becomes of it: the
//! status of the answer, `limited` or `closed`.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::routing::get;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use portcullis::outgoing::{Outgoing, OutgoingError};
use portcullis::{FailureMode, Limiter, Policy, Quota};
use tower::{Layer as _, ServiceExt as _};

use crate::reported::text;

type Caller = Outgoing<Client<HttpConnector, Body>>;

pub(crate) fn routes(limiter: &Limiter, quota: Quota) -> anyhow::Result<Router> {
    let policy = Policy::gcra("called", quota).on_store_failure(FailureMode::Closed);
    let caller = limiter.try_outgoing(policy)?.layer(Client::builder(TokioExecutor::new()).build_http());
    Ok(Router::new().route("/call", get(call)).with_state(caller))
}

async fn call(State(caller): State<Caller>, headers: HeaderMap) -> String {
    let request = match Request::get(text(&headers, "x-target")).body(Body::empty()) {
        Ok(request) => request,
        Err(error) => return error.to_string(),
    };
    match caller.oneshot(request).await {
        Ok(answer) => answer.status().as_str().to_owned(),
        Err(OutgoingError::Limited(paced)) if paced.is_closed() => "closed".to_owned(),
        Err(OutgoingError::Limited(_)) => "limited".to_owned(),
        Err(error) => error.to_string(),
    }
}
