//! The routes that change something. Each change is an audit event.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::response::Response;
use http::StatusCode;
use portcullis_core::{Key, Policy, PolicyName};
use portcullis_tower::{BlockReach, LayerError, LayerSummary, Mode, OverridingError, Percent, Registry};

use crate::access::Actor;
use crate::handlers::audit::{Audit, Ended};
use crate::handlers::reads::json;
use crate::problem::{Problem, Problems};
use crate::recorder::now_ms;
use crate::request::bodies::{
    BlockBody, Changed, GrantBody, ModeBody, QuotaBody, QuotaChanged, TargetBody, UnblockBody,
};
use crate::request::body::read;
use crate::request::target::{Target, client};
use crate::state::{AdminState, Caller, NamedCaller};

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
    let reset = state.options.registry.store().reset(&target.policy, target.caller.key);
    release(&state, actor, "reset", &target.policy, target.caller, reset).await
}

/// Gives a caller another quota for a length of time. It replaces an earlier grant.
#[utoipa::path(post, path = "/v1/grant", request_body = GrantBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_grant(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let GrantBody { policy, identity, quota, duration_seconds: length } = read(body).await?;
    let target = Target::find(&state, &policy, identity)?;
    let mut audit = audit(&state, actor, "grant", &target.policy, target.caller.key);
    audit.detail = format!("{quota} for {} s", length.as_secs());
    let granted = state.options.registry.grant(&target.policy, target.caller.key, quota).for_duration(length);
    change(&state, audit, target.caller, Some(length), async { granted.await.map(|()| of_store(&state)) })
        .await
}

/// Ends the grant of a caller.
#[utoipa::path(post, path = "/v1/revoke", request_body = TargetBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_revoke(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let target = Target::of_body(&state, body).await?;
    let audit = audit(&state, actor, "revoke", &target.policy, target.caller.key);
    let revoked = state.options.registry.revoke_grant(&target.policy, target.caller.key);
    change(&state, audit, target.caller, None, async { revoked.await.map(|()| of_store(&state)) }).await
}

/// Blocks a caller for a length of time: all its requests are rejected, under one policy or, with `everywhere`, under all policies whose
/// keys are its key or begin with it.
#[utoipa::path(post, path = "/v1/block", request_body = BlockBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_block(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let BlockBody { policy, everywhere, identity, duration_seconds: length } = read(body).await?;
    let policy = scope(policy, everywhere)?;
    let length = length.ok_or_else(|| Problem::invalid("duration_seconds", "is missing"))?;
    let detail = format!("for {} s", length.as_secs());
    let Some(policy) = policy else {
        let mut client = client(&state, identity)?;
        note_if_unenforced(&state.options.registry, None, &mut client);
        let mut audit = client_audit(&state, actor, "block everywhere", client.key);
        audit.detail = detail;
        let blocked = state.options.registry.block_client(client.key, length);
        return change(&state, audit, client, Some(length), async { blocked.await.map(reach) }).await;
    };
    let mut target = Target::find(&state, &policy, identity)?;
    note_if_unenforced(&state.options.registry, Some(&target.policy), &mut target.caller);
    let mut audit = audit(&state, actor, "block", &target.policy, target.caller.key);
    audit.detail = detail;
    let blocked = state.options.registry.block(&target.policy, target.caller.key, length);
    let key = target.caller.key;
    let answer = change(&state, audit, target.caller, Some(length), async {
        blocked.await.map(|()| of_store(&state))
    })
    .await?;
    state.recorder.locked_out(target.policy.name(), key, length, now_ms());
    Ok(answer)
}

/// Ends the block or the lock-out of a caller under a policy or, with `everywhere`, its block under all policies.
#[utoipa::path(post, path = "/v1/unblock", request_body = UnblockBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_unblock(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let UnblockBody { policy, everywhere, identity } = read(body).await?;
    let Some(policy) = scope(policy, everywhere)? else {
        let client = client(&state, identity)?;
        let audit = client_audit(&state, actor, "unblock everywhere", client.key);
        let unblocked = state.options.registry.unblock_client(client.key);
        return change(&state, audit, client, None, async { unblocked.await.map(reach) }).await;
    };
    let target = Target::find(&state, &policy, identity)?;
    let unblocked = state.options.registry.unblock(&target.policy, target.caller.key);
    release(&state, actor, "unblock", &target.policy, target.caller, unblocked).await
}

/// Sets the mode of a policy in all layers of this process.
#[utoipa::path(post, path = "/v1/mode", request_body = ModeBody, responses((status = 200, body = Changed), Problems))]
pub(crate) async fn post_mode(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let ModeBody { policy, mode: text } = read(body).await?;
    let (policy, mode) = (state.policy(&policy)?, mode(&text)?);
    let name: &PolicyName = policy.name();
    let mut audit = Audit::new(actor, "mode", Some(name));
    audit.detail = mode.to_string();
    match state.options.registry.set_mode(name, mode) {
        Ok(()) => {
            audit.ended(Ended::Done);
            Ok(json(&Changed {
                action: "mode",
                policy: Some(name.to_string()),
                caller: Caller::default(),
                until: None,
                reach: "this instance, until it restarts or its rules change the mode",
            }))
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

/// Sets the quota of a policy in all layers of this process, and nothing else of the policy.
#[utoipa::path(post, path = "/v1/quota", request_body = QuotaBody, responses((status = 200, body = QuotaChanged), Problems))]
pub(crate) async fn post_quota(Change { state, actor, body }: Change) -> Result<Response, Problem> {
    let QuotaBody { policy, quota } = read(body).await?;
    let former = state.policy(&policy)?;
    let mut audit = Audit::new(actor, "quota", Some(former.name()));
    audit.detail = format!("{} to {quota}", former.strategy());
    match state.options.registry.set_quota(former.name(), quota) {
        Ok(former) => {
            let now = state.options.registry.policy(former.name());
            let now = now.map_or_else(|| quota.to_string(), |now| now.strategy().to_string());
            let before = former.strategy().to_string();
            audit.detail = format!("{before} to {now}");
            audit.ended(Ended::Done);
            let (policy, reach) =
                (former.name().to_string(), "this instance, until it restarts or its rules change");
            Ok(json(&QuotaChanged { action: "quota", policy, before, now, reach }))
        }
        Err(error) => {
            audit.ended(Ended::Failed);
            Err(match error {
                LayerError::Quota { .. } | LayerError::ZeroQuota { .. } | LayerError::Incompatible(_) => {
                    Problem::invalid("quota", error.to_string())
                }
                error => Problem::new(StatusCode::CONFLICT, error.to_string()).with_field("policy"),
            })
        }
    }
}

/// The policy that a change is about; `None` for all.
fn scope(policy: Option<String>, everywhere: bool) -> Result<Option<String>, Problem> {
    let mistake = match (&policy, everywhere) {
        (Some(_), false) | (None, true) => return Ok(policy),
        (Some(_), true) => "must be left out with `everywhere`, which is all policies",
        (None, false) => "is missing: name a policy, or set `everywhere` for all",
    };
    Err(Problem::invalid("policy", mistake))
}

/// Adds a note if a block under this policy, or under all, rejects no request in this process.
fn note_if_unenforced(registry: &Registry, policy: Option<&Policy>, caller: &mut NamedCaller) {
    let rejects = |mode: Mode| mode.share() != Percent::ZERO;
    let layers = registry.layers();
    let is_enforced = |policy: &Policy| {
        let of_layers = layers.iter().flat_map(LayerSummary::policies);
        let mut of_policy = of_layers.filter(|own| own.policy().name() == policy.name()).peekable();
        match registry.mode(policy.name()) {
            _ if registry.is_off() => false,
            Some(mode) => rejects(mode),
            None => of_policy.peek().is_none() || of_policy.any(|own| rejects(own.mode())),
        }
    };
    let note = match policy {
        Some(policy) if !is_enforced(policy) => "the policy is in shadow or off",
        None if !registry.policies().iter().any(is_enforced) => "all policies are in shadow or off",
        _ => return,
    };
    let note = format!("rejects no request in this instance while {note}");
    caller.note = Some(caller.note.take().map_or_else(|| note.clone(), |first| format!("{first}; {note}")));
}

fn audit(state: &AdminState, actor: Actor, action: &'static str, policy: &Policy, key: Key) -> Audit {
    let mut audit = client_audit(state, actor, action, key);
    audit.policy = Some(policy.name().clone());
    audit
}

fn client_audit(state: &AdminState, actor: Actor, action: &'static str, key: Key) -> Audit {
    let mut audit = Audit::new(actor, action, None);
    audit.fingerprint = Some(state.shown(key).unwrap_or_else(|| "withheld".to_owned()));
    audit
}

fn reach(reach: BlockReach) -> &'static str {
    match reach {
        BlockReach::Limiter => NOT_SHARED,
        BlockReach::Store => {
            "all instances that share the store, in this one at once and in the others within 5 s"
        }
    }
}

/// Where a change under one policy applies.
fn of_store(state: &AdminState) -> &'static str {
    match state.options.registry.engine().reach() {
        BlockReach::Limiter => NOT_SHARED,
        BlockReach::Store => "all instances that share the store",
    }
}

/// Makes a change after which the caller is not limited any more.
async fn release<E>(
    state: &AdminState,
    actor: Actor,
    action: &'static str,
    policy: &Policy,
    caller: NamedCaller,
    release: impl Future<Output = Result<(), E>>,
) -> Result<Response, Problem>
where
    OverridingError: From<E>,
{
    let key = caller.key;
    let audit = audit(state, actor, action, policy, key);
    let answer =
        change(state, audit, caller, None, async { release.await.map(|()| of_store(state)) }).await?;
    state.recorder.released(policy.name(), key);
    Ok(answer)
}

/// Makes a change, which returns where it applies, writes its audit event and answers.
async fn change<E>(
    state: &AdminState,
    audit: Audit,
    caller: NamedCaller,
    length: Option<Duration>,
    change: impl Future<Output = Result<&'static str, E>>,
) -> Result<Response, Problem>
where
    OverridingError: From<E>,
{
    let (action, policy) = (audit.action, audit.policy.as_ref().map(ToString::to_string));
    let reach = match state.answer(change).await {
        Ok(reach) => {
            audit.ended(Ended::Done);
            reach
        }
        Err(failure) => {
            let is_fate_unknown = failure.is_fate_unknown();
            audit.ended(if is_fate_unknown { Ended::Unknown } else { Ended::Failed });
            let problem = Problem::from(failure);
            return Err(if is_fate_unknown { problem.with_unknown_fate() } else { problem });
        }
    };
    let until =
        length.map(|length| now_ms().saturating_add(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)));
    Ok(json(&Changed { action, policy, caller: state.caller(caller), until, reach }))
}

/// Reads a mode, in the form in which answers show it.
fn mode(text: &str) -> Result<Mode, Problem> {
    let detail =
        "must be `off`, `shadow`, `enforce` or a share such as `10 %`, from 0 to 100 in steps of 0.1";
    text.parse().map_err(|_| Problem::invalid("mode", detail))
}

const NOT_SHARED: &str = "this instance, until it restarts: its store is not shared";
