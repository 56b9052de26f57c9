//! Callers by the parts of their keys.

use std::collections::{BTreeSet, HashSet};

use http::StatusCode;
use portcullis_core::{Key, KeyWriteError, Policy};
use portcullis_tower::{KeyError, TaggedPart};

use crate::problem::Problem;
use crate::request::bodies::{PartBody, PartsBody};
use crate::state::{AdminState, NamedCaller};

/// Finds the key of these parts under a policy, or under any.
pub(super) fn caller_of_parts(
    state: &AdminState,
    policy: Option<&Policy>,
    PartsBody(parts): &PartsBody,
) -> Result<NamedCaller, Problem> {
    let bytes: Vec<_> = parts.iter().map(|(_, value)| bytes_of(value)).collect();
    let given: Vec<TaggedPart<'_>> =
        parts.iter().zip(&bytes).map(|((tag, _), bytes)| (tag.as_str(), bytes.as_slice())).collect();
    let found = search(state, policy, &given);
    match (found.keys.as_slice(), found.error) {
        ([key], _) => Ok(NamedCaller { key: *key, note: None }),
        ([], Some(error)) => Err(invalid(error.to_string())),
        ([], None) if found.unknown.is_empty() => {
            let key = key_of_tags(state, &given)?;
            if policy.is_none() && key.is_shared() {
                return Ok(NamedCaller { key, note: None });
            }
            let of = if policy.is_some() { "the policy" } else { "a policy" };
            let known: Vec<_> = found.forms.iter().take(MAX_SHOWN).map(String::as_str).collect();
            Err(invalid(format!("are no key of {of}, whose parts are, for example: {}", known.join(" or "))))
        }
        ([], None) => {
            let names: Vec<_> = found.unknown.iter().take(MAX_SHOWN).map(String::as_str).collect();
            let note = format!(
                "applies to a client whose key has these parts, which cannot be verified: only the service knows the keys of {}",
                names.join(", ")
            );
            Ok(NamedCaller { key: key_of_tags(state, &given)?, note: Some(note) })
        }
        _ => {
            let detail = "the layers charge these parts to different keys, such as networks of several lengths: name one policy, or give a request or \
                          the fingerprint";
            Err(Problem::new(StatusCode::CONFLICT, detail).with_field("identity.parts"))
        }
    }
}

/// What is known of the keys of policies.
#[derive(Default)]
struct Found {
    keys: Vec<Key>,
    error: Option<KeyError>,
    /// The forms of the keys, for people.
    forms: BTreeSet<String>,
    /// The policies whose keys only the service knows.
    unknown: BTreeSet<String>,
}

fn search(state: &AdminState, policy: Option<&Policy>, given: &[TaggedPart<'_>]) -> Found {
    let registry = &state.options.registry;
    let (mut found, mut listed) = (Found::default(), HashSet::new());
    for layer in registry.layers() {
        for own in layer.policies() {
            let name = own.policy().name();
            if policy.is_some_and(|policy| policy.name() != name) {
                continue;
            }
            listed.insert(name.clone());
            let forms = own.key_forms();
            match forms.keys(given, policy.is_none(), registry.secret()) {
                Ok(keys) => keys.into_iter().for_each(|key| {
                    if !found.keys.contains(&key) {
                        found.keys.push(key);
                    }
                }),
                Err(error) => found.error = Some(error),
            }
            if !forms.are_all() {
                found.unknown.insert(name.to_string());
            }
            found.forms.insert(forms.to_string());
        }
    }
    // Handlers and services that decide for others make the keys of policies without a layer.
    let registered = registry.policies();
    let unlisted = registered.iter().map(Policy::name).filter(|name| !listed.contains(*name));
    found.unknown.extend(
        unlisted.filter(|name| policy.is_none_or(|policy| policy.name() == *name)).map(ToString::to_string),
    );
    found.forms.remove("");
    found
}

/// Writes the parts as they are given.
fn key_of_tags(state: &AdminState, given: &[TaggedPart<'_>]) -> Result<Key, Problem> {
    let mut hasher = state.options.registry.secret().hasher();
    let mut writer = hasher.writer();
    for (tag, bytes) in given {
        if SHARED_TAGS.contains(tag) {
            writer.shared_part(tag, bytes);
        } else {
            writer.part(tag, bytes);
        }
    }
    hasher.finish().map_err(|error| match error {
        KeyWriteError::Empty => invalid("names no part of a key"),
        error => invalid(error.to_string()),
    })
}

fn bytes_of(value: &PartBody) -> Vec<u8> {
    match value {
        PartBody::Text(text) => text.as_bytes().to_vec(),
        PartBody::Hex { hex } => hex.clone(),
        PartBody::U64 { u64 } => u64.to_be_bytes().to_vec(),
    }
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::invalid("identity.parts", detail)
}

/// The tags of the parts that extractors write as shared.
const SHARED_TAGS: [&str; 11] = [
    "route",
    "http method",
    "grpc service",
    "grpc method",
    "global",
    "host",
    "path",
    "path segment",
    "path pattern",
    "portcullis.missing",
    "portcullis.preflight",
];

/// How many forms of keys, and how many policies, an answer names.
const MAX_SHOWN: usize = 8;
