//! A lane as `limits.toml`.

use std::fmt::Write as _;

use portcullis_core::Policy;
use serde_json::Value;

use crate::scene::{KeyKind, LaneSettings};

/// The rules of a lane. `None` without limits.
pub(super) fn of(lane: &LaneSettings) -> Option<String> {
    if lane.limits.is_empty() {
        return None;
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[layer]\nheaders = \"{}\"", lane.headers.names()[0]);
    for limit in &lane.limits {
        let key = match limit.key {
            KeyKind::Client => "client_ip",
            KeyKind::All => "global",
        };
        let _ = writeln!(text, "\n[policy.{}]", key_of(limit.policy.name().as_str()));
        for (field, value) in fields(&limit.policy)?.iter().filter(|(field, _)| field != "name") {
            let _ = writeln!(text, "{field} = {value}");
        }
        let _ = writeln!(text, "key = \"{key}\"");
    }
    Some(text)
}

/// The fields of a policy in TOML, in the form of core.
pub(super) fn fields(policy: &Policy) -> Option<Vec<(String, String)>> {
    let Value::Object(object) = serde_json::to_value(policy).ok()? else { return None };
    Some(ORDER.into_iter().filter_map(|field| Some((field.to_owned(), value(object.get(field)?)))).collect())
}

/// A value of JSON in TOML.
fn value(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| format!("{name} = {}", self::value(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        // Names and quotas are printable ASCII, for which both have one form.
        other => other.to_string(),
    }
}

/// A name as a key: bare if it may be.
pub(super) fn key_of(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_bare { name.to_owned() } else { Value::from(name).to_string() }
}

/// The fields of a policy in the order in which people read them.
const ORDER: [&str; 15] = [
    "name",
    "strategy",
    "quota",
    "limit",
    "windows",
    "refill",
    "anchor",
    "slots",
    "wait",
    "lease",
    "debt",
    "caller_quotas",
    "overrides",
    "on_store_failure",
    "period",
];
