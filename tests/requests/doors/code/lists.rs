//! Exemptions and lists.

use std::sync::Arc;

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use portcullis::key::{Identity, KeyError, KeyExtractor, KeyWriter, Networks};
use portcullis::layer::{GrpcMethod, Network, RequestMatcher, RequestPath, Undecided};
use portcullis::{ClientIp, RateLimitLayer};
use toml::{Table, Value};

use super::{each, matching, texts};
use crate::program;

type Shared = Arc<dyn RequestMatcher>;

/// Lets a key exempt the requests of a list.
pub(super) fn except(
    key: Arc<dyn KeyExtractor>,
    list: Option<&Value>,
    clients: &ClientIp,
) -> Arc<dyn KeyExtractor> {
    match list {
        Some(list) => Arc::new(Exempting { key, requests: all(list, clients) }),
        None => key,
    }
}

/// A key that exempts requests.
struct Exempting {
    key: Arc<dyn KeyExtractor>,
    requests: Vec<Shared>,
}

impl KeyExtractor for Exempting {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        if self.requests.iter().any(|requests| requests.matches(parts) == Ok(true)) {
            return Ok(Identity::Exempt);
        }
        self.key.extract(parts, key)
    }

    fn challenge(&self) -> Option<HeaderValue> {
        self.key.challenge()
    }

    fn counts_rejections(&self) -> bool {
        self.key.counts_rejections()
    }
}

pub(super) fn of_layer(mut layer: RateLimitLayer, table: &Table, clients: &ClientIp) -> RateLimitLayer {
    let list = |name: &str| table.get(name).map_or(Vec::new(), |list| all(list, clients));
    for requests in list("except") {
        layer = layer.except(requests);
    }
    for requests in list("deny") {
        layer = layer.deny(requests);
    }
    for requests in list("only") {
        layer = layer.only(requests);
    }
    layer
}

fn all(list: &Value, clients: &ClientIp) -> Vec<Shared> {
    each(list).iter().map(|table| one(table.as_table().unwrap(), clients)).collect()
}

/// All fields of a table have to hold.
fn one(table: &Table, clients: &ClientIp) -> Shared {
    let values = matching::values(table, clients).into_iter().map(|value| -> Shared { Arc::new(value) });
    let of_field = |(name, value): (&String, &Value)| -> Shared {
        let text = || value.as_str().unwrap().to_owned();
        match name.as_str() {
            "network" => Arc::new(Network::of(clients, Networks::new(texts(value)).unwrap())),
            "path" => Arc::new(RequestPath::exact(&text())),
            "prefix" => Arc::new(RequestPath::prefix(&text())),
            "grpc" if text().contains('/') => Arc::new(GrpcMethod::named(&text())),
            "grpc" => Arc::new(GrpcMethod::service(&text())),
            "method" => Arc::new(text().parse::<Method>().unwrap()),
            "route" => Arc::new(OfRoute(text())),
            "function" => Arc::new(program::is_internal),
            other => panic!("no list by {other}"),
        }
    };
    let is_field = |(name, _): &(&String, &Value)| !matches!(name.as_str(), "headers" | "query");
    let parts = table.iter().filter(is_field).map(of_field).chain(values);
    parts.reduce(|left, right| Arc::new(left.and(right))).expect("a table of a list names something")
}

struct OfRoute(String);

impl RequestMatcher for OfRoute {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        Ok(parts.extensions.get::<MatchedPath>().is_some_and(|route| route.as_str() == self.0))
    }
}
