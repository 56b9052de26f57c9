//! Which policies a request has to keep to: in code, the routes that a layer is on.

use toml::{Table, Value};

use super::{each, text, texts};
use crate::timeline::Step;

/// Whether one of the conditions holds.
pub(super) fn applies(conditions: Option<&Value>, step: &Step) -> bool {
    conditions
        .is_none_or(|conditions| each(conditions).iter().any(|one| holds(one.as_table().unwrap(), step)))
}

fn holds(condition: &Table, step: &Step) -> bool {
    let path = step.path().split('?').next().unwrap_or_default();
    let is_one = |field: &str, is: &dyn Fn(&str) -> bool| {
        condition.get(field).is_none_or(|values| texts(values).into_iter().any(is))
    };
    text(condition, "path").is_none_or(|pattern| is_path(pattern, path))
        && text(condition, "grpc").is_none_or(|name| is_grpc(name, path))
        && is_one("methods", &|method| method == step.method() || method == "GET" && step.method() == "HEAD")
        && is_one("hosts", &|host| {
            step.header_lines().any(|(name, value)| name == "host" && is_host(host, value))
        })
}

/// A pattern of a router: `{name}` is a segment, and `{*rest}` all that follow.
pub(super) fn is_path(pattern: &str, path: &str) -> bool {
    if let Some(prefix) = pattern.split_once("{*").map(|(prefix, _)| prefix) {
        return path.starts_with(prefix);
    }
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(expected), Some(segment)) if expected.starts_with('{') || expected == segment => {}
            _ => return false,
        }
    }
}

fn is_grpc(name: &str, path: &str) -> bool {
    if name.contains('/') { path == format!("/{name}") } else { path.starts_with(&format!("/{name}/")) }
}

fn is_host(pattern: &str, host: &str) -> bool {
    let host = host.split(':').next().unwrap_or_default();
    match pattern.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix),
        None => host == pattern,
    }
}
