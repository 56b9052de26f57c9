//! A lane as `limits.toml`.

use std::fmt::Write as _;

use portcullis_core::Policy;

use super::left_out;
use crate::json::quoted;
use crate::scene::{KeyKind, LaneSettings, Scene, StoreKind};

/// The rules of a lane. `None` without limits.
pub(super) fn of(scene: &Scene, lane: &LaneSettings) -> Option<String> {
    if lane.limits.is_empty() {
        return None;
    }
    let mut text = left_out(scene, lane, "#");
    // Writing to a string cannot fail.
    if lane.store == StoreKind::Share {
        let _ = writeln!(
            text,
            "# The store of the limiter divides the limits among {} instances.",
            lane.instances
        );
    }
    let _ = writeln!(text, "[layer]\nheaders = \"{}\"", lane.headers.names()[0]);
    if lane.spread > 0 {
        let _ = writeln!(text, "spread_retries = \"{}ms\"", lane.spread);
    }
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

/// The fields of a policy in TOML, in the form of core. `None` if it is a share that no quota describes.
pub(super) fn fields(policy: &Policy) -> Option<Vec<(String, String)>> {
    let json = serde_json::to_string(policy).ok()?;
    let inside = json.strip_prefix('{')?.strip_suffix('}')?;
    members(inside)
        .into_iter()
        .map(|member| {
            let (name, value) = member.split_once(':')?;
            Some((name.trim_matches('"').to_owned(), to_toml(value)))
        })
        .collect()
}

/// The members of an object, without those of objects in it.
fn members(inside: &str) -> Vec<&str> {
    let (mut members, mut start, mut depth) = (Vec::new(), 0, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for (index, byte) in inside.bytes().enumerate() {
        // A name may end in a backslash, which is written as two.
        let was_escaped = is_escaped;
        is_escaped = byte == b'\\' && !was_escaped;
        match byte {
            b'"' if !was_escaped => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth -= 1,
            b',' if !is_text && depth == 0 => {
                members.push(&inside[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    members.push(&inside[start..]);
    members
}

/// A value of JSON in TOML: an object is the only one that differs, and here it has one member.
fn to_toml(value: &str) -> String {
    let member = value.strip_prefix('{').and_then(|value| value.strip_suffix('}')?.split_once(':'));
    match member {
        Some((name, value)) => format!("{{ {} = {value} }}", name.trim_matches('"')),
        None => value.to_owned(),
    }
}

/// A name as a key: bare if it may be.
pub(super) fn key_of(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_bare { name.to_owned() } else { quoted(name) }
}
