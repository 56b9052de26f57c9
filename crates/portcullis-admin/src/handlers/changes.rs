//! The routes that change something. Each change is an audit event.

use std::future::Future;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::response::Response;
use http::StatusCode;
use portcullis_core::PolicyName;
use portcullis_tower::{LayerError, Mode, OverridingError};

use crate::access::Actor;
use crate::handlers::audit::{Audit, Ended};
use crate::handlers::reads::json;
use crate::problem::{Problem, Problems};
use crate::recorder::now_ms;
use crate::request::bodies::{BlockBody, Changed, GrantBody, ModeBody, TargetBody};
use crate::request::body::read;
use crate::request::target::Target;
use crate::state::{AdminState, Caller};

/// A request for a change.
pub(crate) struct Change {
    state: Arc<AdminState>,
    actor: Actor,
    body: Body,
}

impl FromRequest<Arc<AdminState>> for Change {
    type Rejection = ExtensionRejection;

    async fn from_request(request: Request, state: &Arc<AdminState>) -> Result<Self, ExtensionRejection> {
        let (mut parts, body) = request.into_parts();
        let Extension(actor) = Extension::from_request_parts(&mut parts, state).await?;
        Ok(Self { state: Arc::clone(state), actor, body })
    }
}

/// Resets a caller under a policy: the full limit is available again. A block or a grant stays.
#[utoipa::path(post, path = "/v1/reset", request_body = TargetBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_reset(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let target = Target::of_body(&state, body).await?;
    let reset = state.options.registry.store().reset(&target.policy, target.key);
    release(&state, actor, "reset", &target, reset).await
}

/// Gives a caller another quota for a length of time. It replaces an earlier grant.
#[utoipa::path(post, path = "/v1/grant", request_body = GrantBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_grant(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let GrantBody { policy, identity, quota, duration_seconds: length } = read(body).await?;
    let target = Target::find(&state, &policy, identity)?;
    let mut audit = audit(&state, actor, "grant", &target);
    audit.detail = format!("{quota} for {} s", length.as_secs());
    let granted = state.options.registry.grant(&target.policy, target.key, quota).for_duration(length);
    change(&state, audit, &target, granted).await
}

/// Ends the grant of a caller.
#[utoipa::path(post, path = "/v1/revoke", request_body = TargetBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_revoke(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let target = Target::of_body(&state, body).await?;
    let audit = audit(&state, actor, "revoke", &target);
    change(&state, audit, &target, state.options.registry.revoke_grant(&target.policy, target.key)).await
}

/// Blocks a caller for a length of time: all its requests are rejected.
#[utoipa::path(post, path = "/v1/block", request_body = BlockBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_block(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let BlockBody { policy, identity, duration_seconds: length } = read(body).await?;
    let target = Target::find(&state, &policy, identity)?;
    let mut audit = audit(&state, actor, "block", &target);
    audit.detail = format!("for {} s", length.as_secs());
    let blocked = state.options.registry.block(&target.policy, target.key, length);
    let answer = change(&state, audit, &target, blocked).await?;
    state.recorder.locked_out(target.policy.name(), target.key, length, now_ms());
    Ok(answer)
}

/// Ends the block or the lock-out of a caller.
#[utoipa::path(post, path = "/v1/unblock", request_body = TargetBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_unblock(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let target = Target::of_body(&state, body).await?;
    let unblocked = state.options.registry.unblock(&target.policy, target.key);
    release(&state, actor, "unblock", &target, unblocked).await
}

/// Sets the mode of a policy in all layers of this process.
#[utoipa::path(post, path = "/v1/mode", request_body = ModeBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_mode(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let ModeBody { policy, mode: text } = read(body).await?;
    let (policy, mode) = (state.policy(&policy)?, mode(&text)?);
    let name: &PolicyName = policy.name();
    let mut audit = Audit::new(actor, "mode", name);
    audit.detail = mode.to_string();
    match state.options.registry.set_mode(name, mode) {
        Ok(()) => {
            audit.ended(Ended::Done);
            Ok(json(&Changed { policy: name.to_string(), caller: Caller::default() }))
        }
        Err(error) => {
            audit.ended(Ended::Failed);
            Err(match error {
                LayerError::UnverifiedKey { .. } => Problem::invalid("mode", error.to_string()),
                error => Problem::new(StatusCode::CONFLICT, error.to_string()).with_field("policy"),
            })
        }
    }
}

fn audit(state: &AdminState, actor: Actor, action: &'static str, target: &Target) -> Audit {
    let mut audit = Audit::new(actor, action, target.policy.name());
    audit.fingerprint = Some(state.shown(target.key).unwrap_or_else(|| "withheld".to_owned()));
    audit
}

/// Makes a change after which the caller is not limited any more.
async fn release<E>(
    state: &AdminState,
    actor: Actor,
    action: &'static str,
    target: &Target,
    release: impl Future<Output = Result<(), E>>,
) -> Result<Response, Problem>
where
    OverridingError: From<E>,
{
    let answer = change(state, audit(state, actor, action, target), target, release).await?;
    state.recorder.released(target.policy.name(), target.key);
    Ok(answer)
}

/// Makes a change, writes its audit event and answers.
async fn change<E>(
    state: &AdminState,
    audit: Audit,
    target: &Target,
    change: impl Future<Output = Result<(), E>>,
) -> Result<Response, Problem>
where
    OverridingError: From<E>,
{
    match state.answer(change).await {
        Ok(()) => audit.ended(Ended::Done),
        Err(failure) => {
            let is_fate_unknown = failure.is_fate_unknown();
            audit.ended(if is_fate_unknown { Ended::Unknown } else { Ended::Failed });
            let problem = Problem::from(failure);
            return Err(if is_fate_unknown { problem.with_unknown_fate() } else { problem });
        }
    }
    let policy = target.policy.name().to_string();
    Ok(json(&Changed { policy, caller: state.caller(target.key) }))
}

/// Reads a mode, in the form in which answers show it.
fn mode(text: &str) -> Result<Mode, Problem> {
    let detail =
        "must be `off`, `shadow`, `enforce` or a share such as `10 %`, from 0 to 100 in steps of 0.1";
    text.parse().map_err(|_| Problem::invalid("mode", detail))
}
