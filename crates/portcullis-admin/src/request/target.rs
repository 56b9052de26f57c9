//! Which policy and key a request is about.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use portcullis_core::overrides::OverrideError;
use portcullis_core::{Key, KeyWriteError, Policy, PolicyName};
use portcullis_tower::{Fingerprint, FingerprintError};

use crate::problem::Problem;
use crate::request::bodies::{IdentityBody, PartBody, PartsBody, RequestBody, TargetBody};
use crate::request::body::read;
use crate::snapshot::shown_text;
use crate::state::AdminState;

/// A policy and a key.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) policy: Policy,
    pub(crate) key: Key,
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
        let key = key_of(state, Some(&policy), identity)?;
        Ok(Self { policy, key })
    }
}

/// The key of a caller under no policy in particular. A request is of a caller if all layers that find a key in it find the same.
pub(crate) fn client(state: &AdminState, identity: IdentityBody) -> Result<Key, Problem> {
    let key = key_of(state, None, identity)?;
    if key.is_shared() {
        return Err(Problem::invalid("identity", OverrideError::SharedClient.to_string()));
    }
    Ok(key)
}

fn key_of(state: &AdminState, policy: Option<&Policy>, identity: IdentityBody) -> Result<Key, Problem> {
    match (identity.fingerprint, identity.request, identity.parts) {
        (Some(text), None, None) => {
            let invalid = |detail: String| Problem::invalid("identity.fingerprint", detail);
            let key = text.parse().map(Fingerprint::key);
            let key = key.map_err(|error: FingerprintError| invalid(error.to_string()))?;
            // A key with the same digits and other parts is another place in the store, where a change would have no effect.
            if state.recorder.shown_key(key.fingerprint()).is_some_and(|shown| shown != key) {
                let detail = "is not the whole fingerprint: copy it with its hyphens, as the list shows it";
                return Err(invalid(detail.to_owned()));
            }
            Ok(key)
        }
        (None, Some(request), None) => key_of_request(state, policy, request),
        (None, None, Some(parts)) => key_of_parts(state, &parts),
        _ => Err(Problem::invalid("identity", "must have one of `fingerprint`, `request` and `parts`")),
    }
}

/// Writes the parts as an extractor would.
fn key_of_parts(state: &AdminState, PartsBody(parts): &PartsBody) -> Result<Key, Problem> {
    let mut hasher = state.options.registry.secret().hasher();
    let mut writer = hasher.writer();
    for (tag, value) in parts {
        let bytes: &[u8] = match value {
            PartBody::Text(text) => text.as_bytes(),
            PartBody::Hex { hex } => hex,
            PartBody::U64 { u64 } => &u64.to_be_bytes(),
        };
        if SHARED_TAGS.contains(&tag.as_str()) {
            writer.shared_part(tag, bytes);
        } else {
            writer.part(tag, bytes);
        }
    }
    hasher.finish().map_err(|error| {
        let detail = match error {
            KeyWriteError::Empty => "names no part of a key".to_owned(),
            error => error.to_string(),
        };
        Problem::invalid("identity.parts", detail)
    })
}

/// The tags of the parts that extractors write as shared.
const SHARED_TAGS: [&str; 7] = [
    "route",
    "http method",
    "grpc service",
    "grpc method",
    "global",
    "portcullis.missing",
    "portcullis.preflight",
];

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
