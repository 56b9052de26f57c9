//! Keys.

use std::sync::Arc;

use portcullis::ClientIp;
use portcullis::key::{
    Bearer, Cookie, Extension, Global, Header, Host, KeyExtractor, Networks, PathKey, Query, Route, Trust,
};
use toml::{Table, Value};

use super::{flag, number, text, texts};
use crate::program::{Account, write_account};

type Shared = Arc<dyn KeyExtractor>;

/// The clients by `[client_ip]`.
pub(super) fn clients(table: Option<&Value>) -> ClientIp {
    let Some(table) = table.and_then(Value::as_table) else { return ClientIp::peer() };
    let hops: Option<usize> = number(table, "hops");
    let trust = match (table.get("trusted_proxies"), hops) {
        (Some(networks), None) => Some(Trust::networks(Networks::new(texts(networks)).unwrap())),
        (Some(networks), Some(hops)) => {
            Some(Trust::networks(Networks::new(texts(networks)).unwrap()).at_most(hops))
        }
        (None, hops) => hops.map(Trust::hops),
    };
    let clients = match (text(table, "header"), trust) {
        (Some("x-forwarded-for"), Some(trust)) => ClientIp::behind(trust).x_forwarded_for(),
        (Some("forwarded"), Some(trust)) => ClientIp::behind(trust).forwarded(),
        (Some(header), Some(trust)) if flag(table, "or_peer") => {
            ClientIp::behind(trust).header_or_peer(header)
        }
        (Some(header), Some(trust)) => ClientIp::behind(trust).header(header),
        _ => ClientIp::peer(),
    };
    let clients = number(table, "ipv4_prefix").map_or(clients.clone(), |bits| clients.ipv4_prefix(bits));
    number(table, "ipv6_prefix").map_or(clients.clone(), |bits| clients.ipv6_prefix(bits))
}

/// A key that is known at once. `None` for a look-up.
pub(super) fn of(value: &Value, clients: &ClientIp) -> Option<Shared> {
    Some(match value {
        Value::String(name) => plain(name, clients),
        Value::Array(all) => joined(all, clients, |left, right| Arc::new(left.or(right))),
        Value::Table(table) if table.contains_key("lookup") => return None,
        Value::Table(table) => from_table(table, clients),
        other => panic!("no key: {other:?}"),
    })
}

fn plain(name: &str, clients: &ClientIp) -> Shared {
    match name {
        "client_ip" => Arc::new(clients.clone()),
        "peer" => Arc::new(ClientIp::peer()),
        "global" => Arc::new(Global),
        "route" => Arc::new(Route::matched_path()),
        "method" => Arc::new(Route::http_method()),
        "grpc_service" => Arc::new(Route::grpc_service()),
        "grpc_method" => Arc::new(Route::grpc_method()),
        "bearer" => Arc::new(Bearer),
        "path" => Arc::new(PathKey::whole()),
        "host" => Arc::new(Host),
        other => panic!("no key {other}"),
    }
}

fn from_table(table: &Table, clients: &ClientIp) -> Shared {
    let key: Shared = if let Some(name) = text(table, "header") {
        let header = Header::named(name);
        if flag(table, "trusted") { Arc::new(header.trusted(clients)) } else { Arc::new(header) }
    } else if let Some(name) = text(table, "cookie") {
        Arc::new(Cookie::named(name))
    } else if let Some(name) = text(table, "query") {
        Arc::new(Query::named(name))
    } else if let Some(pattern) = text(table, "path") {
        let key = PathKey::of(pattern);
        Arc::new(text(table, "segment").map_or(key.clone(), |name| key.segment(name)))
    } else if table.contains_key("extension") {
        Arc::new(Extension::<Account>::with(write_account))
    } else {
        let all = table["all"].as_array().expect("a list of keys");
        joined(all, clients, |left, right| Arc::new(left.and(right)))
    };
    match text(table, "challenge") {
        Some(challenge) => Arc::new(key.credential(challenge)),
        None => key,
    }
}

fn joined(all: &[Value], clients: &ClientIp, join: impl Fn(Shared, Shared) -> Shared) -> Shared {
    let keys = all.iter().map(|key| of(key, clients).expect("a look-up stands alone"));
    keys.reduce(join).expect("a list of keys is not empty")
}
