//! Which policy and key a request is about.

mod named;

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use portcullis_core::overrides::OverrideError;
use portcullis_core::{Key, Policy, PolicyName};
use portcullis_tower::{Fingerprint, FingerprintError};

use crate::problem::Problem;
use crate::request::bodies::{IdentityBody, RequestBody, TargetBody};
use crate::request::body::read;
use crate::snapshot::shown_text;
use crate::state::{AdminState, NamedCaller};

/// A policy and a key.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) policy: Policy,
    pub(crate) caller: NamedCaller,
}

impl Target {
    /// Reads a body that has `policy` and `identity` only.
    pub(crate) async fn of_body(state: &AdminState, body: Body) -> Result<Self, Problem> {
        let TargetBody { policy, identity } = read(body).await?;
        Self::find(state, &policy, identity)
    }

    /// Finds the policy and the key.
    pub(crate) fn find(state: &AdminState, policy: &str, identity: IdentityBody) -> Result<Self, Problem> {
        let policy = state.policy(policy)?;
        let caller = caller_of(state, Some(&policy), identity)?;
        Ok(Self { policy, caller })
    }
}

/// A caller under no policy in particular. A request is of a caller if all layers that find a key in it find the same.
pub(crate) fn client(state: &AdminState, identity: IdentityBody) -> Result<NamedCaller, Problem> {
    let caller = caller_of(state, None, identity)?;
    if caller.key.is_shared() {
        return Err(Problem::invalid("identity", OverrideError::SharedClient.to_string()));
    }
    Ok(caller)
}

fn caller_of(
    state: &AdminState,
    policy: Option<&Policy>,
    identity: IdentityBody,
) -> Result<NamedCaller, Problem> {
    match (identity.fingerprint, identity.request, identity.parts) {
        (Some(text), None, None) => {
            let invalid = |detail: String| Problem::invalid("identity.fingerprint", detail);
            let key = text.parse().map(Fingerprint::key);
            let key = key.map_err(|error: FingerprintError| invalid(error.to_string()))?;
            match state.recorder.shown_key(key.fingerprint()) {
                Some(shown) if shown == key => Ok(NamedCaller { key, note: None }),
                // A key with the same digits and other parts is another place in the store, where a change would have no effect.
                Some(_) => Err(invalid(
                    "is not the whole fingerprint: copy it with its hyphens, as the list shows it".to_owned(),
                )),
                None => Ok(NamedCaller { key, note: Some(UNSEEN.to_owned()) }),
            }
        }
        (None, Some(request), None) => {
            Ok(NamedCaller { key: key_of_request(state, policy, request)?, note: None })
        }
        (None, None, Some(parts)) => named::caller_of_parts(state, policy, &parts),
        _ => Err(Problem::invalid("identity", "must have one of `fingerprint`, `request` and `parts`")),
    }
}

const UNSEEN: &str = "applies to a client that has this fingerprint: whether one has it cannot be verified, and no list of this instance shows it";

/// Runs the extractors of the layers that have the policy, or of all layers, as they would run on such a request.
fn key_of_request(state: &AdminState, policy: Option<&Policy>, request: RequestBody) -> Result<Key, Problem> {
    let route = request.route.clone();
    let parts = head(request)?;
    let (mut keys, mut error, mut has_layer) = (Vec::new(), None, false);
    for layer in state.options.registry.layers() {
        let is_meant = route
            .as_deref()
            .is_none_or(|route| layer.route().is_some_and(|own| own == route || shown_text(own) == route));
        if !is_meant {
            continue;
        }
        let is_of = |name: &PolicyName| policy.is_none_or(|policy| policy.name() == name);
        let names = layer.policies().iter().map(|summary| summary.policy().name());
        for name in names.filter(|name| is_of(name)) {
            has_layer = true;
            match layer.find_key(name, &parts) {
                // No caller has a key that all share.
                Ok(Some(key)) if policy.is_none() && key.is_shared() => {}
                Ok(Some(key)) if !keys.contains(&key) => keys.push(key),
                Ok(_) => {}
                Err(failure) => error = Some(failure),
            }
        }
    }
    if !has_layer {
        let (field, detail) = match route {
            Some(_) => ("identity.request.route", "no layer of this route has the policy"),
            None => (
                "identity.request",
                "no layer has the policy, so that there is no extractor: give the fingerprint, or the parts of the key",
            ),
        };
        return Err(Problem::invalid(field, detail));
    }
    match (keys.as_slice(), error) {
        ([key], _) => Ok(*key),
        ([], Some(error)) if error.is_setup_fault() => {
            let detail =
                "is missing, and the key is made of the address of the peer: `--peer` of the command";
            Err(Problem::invalid("identity.request.peer", detail))
        }
        ([], Some(error)) => Err(Problem::invalid("identity.request", error.to_string())),
        ([], None) => {
            let detail = "the layer finds no key in such a request: it has no identity, is exempt, or the key needs a look-up or is put into the \
                          request by the service, as by an extension: give the fingerprint, or the parts of the key";
            Err(Problem::invalid("identity.request", detail))
        }
        _ => {
            let detail = "the layers find different keys in such a request: name the route of one of them, or give the fingerprint or the parts of the key";
            Err(Problem::new(StatusCode::CONFLICT, detail).with_field("identity.request.route"))
        }
    }
}

/// The head of the request that is described.
fn head(described: RequestBody) -> Result<Parts, Problem> {
    let mut request = Request::new(());
    if let Some(method) = described.method {
        let method: Result<Method, _> = method.parse();
        *request.method_mut() =
            method.map_err(|_| Problem::invalid("identity.request.method", "is no method"))?;
    }
    if let Some(path) = described.path {
        let uri: Option<Uri> = path.parse().ok().filter(|_| path.starts_with('/'));
        *request.uri_mut() =
            uri.ok_or_else(|| Problem::invalid("identity.request.path", "is no path that begins with `/`"))?;
    }
    if let Some(headers) = described.headers {
        for (name, value) in headers {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            let invalid = || {
                Problem::invalid("identity.request.headers", "has a name or a value that no header can have")
            };
            let (name, value) = header.ok_or_else(invalid)?;
            request.headers_mut().append(name, value);
        }
    }
    if let Some(peer) = described.peer {
        let address: Option<SocketAddr> = peer.parse().ok();
        let address = address.or_else(|| Some(SocketAddr::new(peer.parse::<IpAddr>().ok()?, 0)));
        let invalid = || Problem::invalid("identity.request.peer", "is no address");
        request.extensions_mut().insert(address.ok_or_else(invalid)?);
    }
    Ok(request.into_parts().0)
}
