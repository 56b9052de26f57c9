//! The routes that change nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};
use portcullis_core::Timestamp;
use portcullis_core::store::Checks;
use serde::Serialize;

use crate::access::Actor;
use crate::problem::{Problem, Problems};
use crate::recorder::now_ms;
use crate::request::bodies::{BlockUntil, Budget, GrantUntil, Overrides, TargetBody};
use crate::request::target::Target;
use crate::snapshot::{Layers, Policies, Snapshot, layers_in_use, policies_in_use, snapshot};
use crate::state::AdminState;
use crate::stream::stream;

/// Everything at one instant: policies and their counters, the store, the keys with the most requests, those that are limited now, and the
/// last rejections.
#[utoipa::path(get, path = "/v1/snapshot", responses((status = 200, body = Snapshot), Problems))]
pub(crate) async fn get_snapshot(State(state): State<Arc<AdminState>>) -> Response {
    json(&snapshot(&state))
}

/// A snapshot per second, each on a line of its own, until the client goes or ten minutes have passed. At most 16 streams are open at a time; where all
/// are, the oldest one of the actor with the most ends for an actor with fewer.
#[utoipa::path(
    get,
    path = "/v1/stream",
    responses((status = 200, body = Snapshot, content_type = "application/x-ndjson"), Problems)
)]
pub(crate) async fn get_stream(
    State(state): State<Arc<AdminState>>,
    Extension(actor): Extension<Actor>,
) -> Response {
    stream(state, actor)
}

/// All registered policies, with their strategies, modes, routes and keys, the number of their layers and whether they have counted a request.
#[utoipa::path(get, path = "/v1/policies", responses((status = 200, body = Policies), Problems))]
pub(crate) async fn get_policies(State(state): State<Arc<AdminState>>) -> Response {
    let counts = state.recorder.view(now_ms()).policies;
    json(&Policies { policies: policies_in_use(&state.options.registry, &counts) })
}

/// The layers that exist, with their policies.
#[utoipa::path(get, path = "/v1/layers", responses((status = 200, body = Layers), Problems))]
pub(crate) async fn get_layers(State(state): State<Arc<AdminState>>) -> Response {
    json(&Layers { layers: layers_in_use(&state.options.registry) })
}

/// What a caller has left under a policy. Charges nothing.
#[utoipa::path(
    post,
    path = "/v1/budget",
    request_body = TargetBody,
    responses((status = 200, body = Budget), Problems)
)]
pub(crate) async fn post_budget(
    State(state): State<Arc<AdminState>>,
    body: Body,
) -> Result<Response, Problem> {
    let Target { policy, caller } = Target::of_body(&state, body).await?;
    let registry = &state.options.registry;
    let own = registry.caller_policy(&policy, caller.key);
    let may_differ = own.is_none() && policy.quota_range().is_some();
    let peek = registry.engine().check(Checks::one(own.unwrap_or(policy), caller.key, 0));
    let outcome = state.answer(peek).await?;
    let note = may_differ && outcome.individual_policies().next().is_none();
    let decision = outcome.into_decision();
    Ok(json(&Budget {
        policy: decision.policy().to_string(),
        caller: state.caller(caller),
        limit: decision.limit(),
        unlimited: decision.is_unlimited(),
        remaining: decision.remaining(),
        reset_after_ms: millis(decision.reset_after()),
        next_after_ms: millis(decision.next_after()),
        blocked: decision.is_blocked(),
        degraded: decision.is_degraded(),
        note: note.then_some(QUOTA_OF_POLICY),
    }))
}

/// What an answer says of figures that may not be those of the caller.
const QUOTA_OF_POLICY: &str = "the figures are those of the policy's quota; its callers have quotas of their own, and that of this one is not known here";

/// The block and the grant of a caller under a policy.
#[utoipa::path(
    post,
    path = "/v1/overrides",
    request_body = TargetBody,
    responses((status = 200, body = Overrides), Problems)
)]
pub(crate) async fn post_overrides(
    State(state): State<Arc<AdminState>>,
    body: Body,
) -> Result<Response, Problem> {
    let Target { policy, caller } = Target::of_body(&state, body).await?;
    let found = state.answer(state.options.registry.overrides(&policy, caller.key)).await?;
    Ok(json(&Overrides {
        policy: policy.name().to_string(),
        caller: state.caller(caller),
        block: found.block().map(|block| BlockUntil { until: since_epoch(block.until()) }),
        grant: found
            .grant()
            .map(|grant| GrantUntil { quota: grant.quota().to_string(), until: since_epoch(grant.until()) }),
    }))
}

/// An answer in JSON.
pub(crate) fn json(answer: &impl Serialize) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(answer).unwrap_or_default()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

const fn since_epoch(instant: Timestamp) -> u64 {
    instant.as_micros() / 1_000
}
