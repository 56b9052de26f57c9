//! Which policies a request has to keep to: in code, the routes that a layer is on.

use axum::http::Method;
use axum::http::header::HOST;
use axum::http::request::Parts;
use portcullis::ClientIp;
use portcullis::layer::{RequestMatcher as _, RequestValue};
use toml::{Table, Value};

use super::{each, flag, text, texts};

/// Whether one of the conditions holds.
pub(super) fn applies(conditions: Option<&Value>, parts: &Parts, clients: &ClientIp) -> bool {
    let Some(conditions) = conditions else { return true };
    each(conditions).iter().any(|one| holds(one.as_table().unwrap(), parts, clients))
}

fn holds(condition: &Table, parts: &Parts, clients: &ClientIp) -> bool {
    let path = parts.uri.path();
    let is_one = |field: &str, is: &dyn Fn(&str) -> bool| {
        condition.get(field).is_none_or(|values| texts(values).into_iter().any(is))
    };
    text(condition, "path").is_none_or(|pattern| is_path(pattern, path))
        && text(condition, "grpc").is_none_or(|name| is_grpc(name, path))
        && is_one("methods", &|method| {
            method == parts.method.as_str() || method == "GET" && parts.method == Method::HEAD
        })
        && is_one("hosts", &|host| {
            let hosts = parts.headers.get_all(HOST).iter();
            hosts.filter_map(|value| value.to_str().ok()).any(|value| is_host(host, value))
        })
        // What servers may read in different ways restricts.
        && values(condition, clients).iter().all(|value| value.matches(parts) != Ok(false))
}

/// What headers and parameters of the query have to be.
pub(super) fn values(condition: &Table, clients: &ClientIp) -> Vec<RequestValue> {
    let of_field = |field: &str, of: fn(&str) -> RequestValue| -> Vec<RequestValue> {
        let values = condition.get(field).and_then(Value::as_table).into_iter().flatten();
        values.map(|(name, test)| value(of(name), test, clients)).collect()
    };
    let headers = of_field("headers", |name| RequestValue::header(name));
    headers.into_iter().chain(of_field("query", |name| RequestValue::query(name))).collect()
}

fn value(value: RequestValue, test: &Value, clients: &ClientIp) -> RequestValue {
    let table = match test {
        Value::String(test) if test == "present" => return value,
        Value::String(test) if test == "absent" => return value.absent(),
        test => test.as_table().expect("a value is a text or a table"),
    };
    let value = match (table.get("equals"), table.get("prefix")) {
        (Some(all), None) => value.equals(texts(all)),
        (None, Some(all)) => value.begins_with(texts(all)),
        _ if flag(table, "present") => value,
        _ => value.absent(),
    };
    if flag(table, "trusted") { value.trusted(clients) } else { value }
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
