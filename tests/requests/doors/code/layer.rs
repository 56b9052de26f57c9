//! The options of a policy in a layer, and of the layer.

use axum::http::request::Parts;
use portcullis::charge::{OnAbort, ResponseOutcome};
use portcullis::headers::RateLimitHeaders;
use portcullis::rules::Tier;
use portcullis::usage::UsageReader;
use portcullis::{ClientIp, Limit, OnMissing, PolicyExt as _, Quota, RateLimitLayer};
use toml::{Table, Value};

use super::{duration, each, flag, key, lists, matching, number, policy, text};
use crate::program;

/// The limits of a table.
pub(super) fn limits(clients: &ClientIp, name: &str, table: &Table) -> Vec<Limit> {
    let policy = policy::of(name, table);
    let key = key::of(&table["key"], clients).map(|key| lists::except(key, table.get("except"), clients));
    let limit = match key {
        Some(key) => policy.by(key),
        None => policy.by_async(program::owner()),
    };
    let limit = if flag(table, "hide_key") { limit.hide_key() } else { limit };
    let limit = outcome(usage(costs(shared(limit, table), table, clients), table), table);
    let limit = until(quotas(limit, table, clients).mode(policy::mode(table.get("mode"))), table);
    let limit = match table.get("warn_at") {
        Some(share) => limit.warn_at(share.as_float().unwrap()),
        None => limit,
    };
    let limit = match table.get("lock_out") {
        Some(lock_out) => limit.lock_out(policy::lock_out(lock_out.as_table().unwrap())),
        None => limit,
    };
    let Some(places) = table.get("in_flight").and_then(Value::as_table) else { return vec![limit] };
    let in_flight = Limit::new(policy::in_flight(&format!("{name}.in_flight"), places));
    vec![limit, shared(until(in_flight, places), table)]
}

fn until(limit: Limit, table: &Table) -> Limit {
    if text(table, "until") == Some("headers") { limit.release_at_headers() } else { limit }
}

/// What a policy and its limit on requests in flight have in common.
fn shared(limit: Limit, table: &Table) -> Limit {
    let limit = match text(table, "on_missing") {
        Some("exempt") => limit.on_missing(OnMissing::Exempt),
        Some("shared") => limit.on_missing(OnMissing::Shared),
        _ => limit,
    };
    let limit = if flag(table, "count_rejections") { limit.count_rejections() } else { limit };
    let limit = if flag(table, "report") { limit.report() } else { limit };
    if flag(table, "hide") { limit.hide() } else { limit }
}

fn costs(limit: Limit, table: &Table, clients: &ClientIp) -> Limit {
    let (cost, clients) = (table.get("cost").cloned(), clients.clone());
    if let Some(Value::Integer(units)) = &cost {
        let units = u64::try_from(*units).unwrap();
        return match text(table, "reserve") {
            None => limit.cost(units),
            Some("used") => limit.reserve(units),
            Some("nothing") => limit.reserve_or(units, OnAbort::Nothing),
            Some(_) => limit.reserve_or(units, OnAbort::Reservation),
        };
    }
    let units = move |parts: &Parts| {
        cost.as_ref().map_or(1, |cost| of_request(cost.as_table().unwrap(), parts, &clients))
    };
    match text(table, "reserve") {
        None => limit.cost_by(units),
        Some("used") => limit.reserve_by(units),
        Some("nothing") => limit.reserve_by_or(units, OnAbort::Nothing),
        Some(_) => limit.reserve_by_or(units, OnAbort::Reservation),
    }
}

/// What reads the usage from responses.
fn usage(limit: Limit, table: &Table) -> Limit {
    match table.get("usage") {
        None => limit,
        Some(Value::Table(place)) => {
            limit.read_usage(UsageReader::pointer(text(place, "pointer").unwrap()).unwrap())
        }
        Some(provider) => limit.read_usage(match provider.as_str().unwrap() {
            "openai" => UsageReader::OPENAI,
            "anthropic" => UsageReader::ANTHROPIC,
            _ => UsageReader::GEMINI,
        }),
    }
}

fn of_request(cost: &Table, parts: &Parts, clients: &ClientIp) -> u64 {
    if let Some(name) = text(cost, "header") {
        let max: u64 = number(cost, "max").unwrap();
        let is_believed = !flag(cost, "trusted") || clients.trusts_peer(parts);
        let Some(value) = parts.headers.get(name).filter(|_| is_believed) else { return 1 };
        return value.to_str().ok().and_then(|units| units.parse().ok()).unwrap_or(max).clamp(1, max);
    }
    if let Some(paths) = cost.get("path").and_then(Value::as_table) {
        return highest(paths.iter().filter(|(path, _)| matching::is_path(path, parts.uri.path())));
    }
    if let Some(methods) = cost.get("method").and_then(Value::as_table) {
        return highest(methods.iter().filter(|(method, _)| parts.method.as_str() == *method));
    }
    if let Some(all) = cost.get("when") {
        let all = each(all).iter().filter_map(Value::as_table);
        let met = all.filter(|one| matching::applies(one.get("match"), parts, clients));
        return highest(met.filter_map(|one| one.get_key_value("units")));
    }
    program::items(parts)
}

/// The highest of several units, else 1.
fn highest<'a>(all: impl Iterator<Item = (&'a String, &'a Value)>) -> u64 {
    all.map(|(_, units)| u64::try_from(units.as_integer().unwrap()).unwrap()).max().unwrap_or(1)
}

fn outcome(limit: Limit, table: &Table) -> Limit {
    let limit = if flag(table, "refund_unanswered") { limit.refund_unanswered() } else { limit };
    let Some(charge) = table.get("charge_when").and_then(Value::as_table).cloned() else { return limit };
    let limit = limit.charge_when(move |outcome: &ResponseOutcome<'_>| {
        let status = outcome.status().as_u16();
        let is_status = |value: &Value| match value {
            Value::Integer(number) => *number == i64::from(status),
            class => class.as_str().unwrap() == format!("{}xx", status / 100),
        };
        let is_grpc = |value: &Value| outcome.grpc_status().map(i64::from) == value.as_integer();
        charge.get("status").is_some_and(|value| each(value).iter().any(is_status))
            || charge.get("grpc_status").is_some_and(|value| each(value).iter().any(is_grpc))
            || charge.contains_key("function") && program::failed(outcome)
    });
    match table.get("charge_after") {
        Some(Value::Integer(requests)) => {
            limit.charge_after().charge_after_at_most(usize::try_from(*requests).unwrap())
        }
        Some(Value::Boolean(true)) => limit.charge_after(),
        _ => limit,
    }
}

fn quotas(limit: Limit, table: &Table, clients: &ClientIp) -> Limit {
    if table.contains_key("quota_lookup") {
        return limit.quota_by_async(program::contract());
    }
    let Some(tiers) = table.get("tiers").and_then(Value::as_table).cloned() else { return limit };
    let (header, clients) = (table.get("tier").and_then(Value::as_table).cloned(), clients.clone());
    limit.quota(move |parts: &Parts| -> Option<Quota> {
        let tier = match &header {
            Some(tier) if flag(tier, "trusted") && !clients.trusts_peer(parts) => return None,
            Some(tier) => parts.headers.get(text(tier, "header")?)?.to_str().ok()?,
            None => parts.extensions.get::<Tier>()?.name(),
        };
        Some(tiers.get(tier)?.as_str().unwrap().parse().unwrap())
    })
}

/// Adds what concerns all policies.
pub(super) fn options(layer: RateLimitLayer, table: &Table, clients: &ClientIp) -> RateLimitLayer {
    let layer = match table.get("headers") {
        Some(names) => {
            layer.headers(each(names).iter().fold(RateLimitHeaders::NONE, |all, name| all | headers(name)))
        }
        None => layer,
    };
    let renames = table.get("header_names").and_then(Value::as_table).into_iter().flatten();
    let layer = renames.fold(layer, |layer, (from, to)| {
        layer.rename_header(&from.parse().unwrap(), to.as_str().unwrap().parse().unwrap()).unwrap()
    });
    let layer = match duration(table, "spread_retries") {
        Some(spread) => layer.spread_retries(spread),
        None => layer,
    };
    let layer = match duration(table, "lookup_deadline") {
        Some(deadline) => layer.lookup_deadline(deadline),
        None => layer,
    };
    let layer = match duration(table, "ready_deadline") {
        Some(deadline) => layer.ready_deadline(deadline),
        None => layer,
    };
    let layer = match table.get("discard_bodies") {
        Some(bytes) => layer.discard_bodies(bytes.as_integer().unwrap().try_into().unwrap()),
        None => layer,
    };
    let layer = if flag(table, "limit_preflights") { layer.limit_preflights() } else { layer };
    let layer = if flag(table, "decision_in_response") { layer.decision_in_response() } else { layer };
    let layer = if flag(table, "with_charge") { layer.with_charge() } else { layer };
    lists::of_layer(layer, table, clients)
}

fn headers(name: &Value) -> RateLimitHeaders {
    match name.as_str().unwrap() {
        "x-ratelimit" => RateLimitHeaders::X_RATELIMIT,
        "x-ratelimit-unix-time" => RateLimitHeaders::X_RATELIMIT.reset_as_unix_time(),
        "ietf" => RateLimitHeaders::IETF,
        "ietf-draft-6" => RateLimitHeaders::IETF_DRAFT_6,
        "by-policy" => RateLimitHeaders::BY_POLICY,
        "shadow" => RateLimitHeaders::SHADOW,
        "none" => RateLimitHeaders::NONE,
        other => panic!("no headers {other}"),
    }
}
