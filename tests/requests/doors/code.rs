//! A layer that is built in code from the values of the rules, as a programmer would write it. It shares nothing with the reader of
//! rules.

mod key;
mod layer;
mod lists;
mod matching;
mod policy;
mod rejection;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::Router;
use portcullis::{ClientIp, Limiter, RateLimitLayer};
use toml::{Table, Value};

use crate::program::Service;
use crate::timeline::Step;

/// The rules, and the layers of the sets of policies that requests have needed.
pub(crate) struct Code {
    rules: Table,
    clients: ClientIp,
    limiter: Limiter,
    router: Router,
    service: Service,
    layers: Mutex<BTreeMap<Vec<String>, Option<RateLimitLayer>>>,
}

impl Code {
    pub(super) fn new(rules: &Table, limiter: Limiter, service: &Service) -> Self {
        Self {
            rules: rules.clone(),
            clients: key::clients(rules.get("client_ip")),
            limiter,
            router: Service::router(),
            service: service.clone(),
            layers: Mutex::default(),
        }
    }

    /// The router with a layer of the policies that a request has to keep to: in code, a layer is on the routes that it is for.
    pub(super) fn router(&self, step: &Step) -> Router {
        let (parts, _) = super::request(step).into_parts();
        let applies = |policy: &Table| matching::applies(policy.get("match"), &parts, &self.clients);
        let policies = self.policies().into_iter().filter(|(_, policy)| applies(policy));
        let names: Vec<_> = policies.map(|(name, _)| name.clone()).collect();
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let layer = layers.entry(names.clone()).or_insert_with(|| self.layer(&names));
        let router = match layer {
            Some(layer) => self.router.clone().layer(layer.clone()),
            None => self.router.clone(),
        };
        router.layer(self.service.extension())
    }

    fn layer(&self, names: &[String]) -> Option<RateLimitLayer> {
        let policies = self.policies().into_iter().filter(|(name, _)| names.contains(name));
        let mut limits =
            policies.clone().flat_map(|(name, policy)| layer::limits(&self.clients, name, policy));
        let first = self.limiter.layer(limits.next()?);
        let layer = limits.fold(first, RateLimitLayer::and);
        let options = self.rules.get("layer").and_then(Value::as_table);
        let layer = match options {
            Some(options) => layer::options(layer, options, &self.clients),
            None => layer,
        };
        Some(rejection::of_layer(layer, options, policies))
    }

    fn policies(&self) -> Vec<(&String, &Table)> {
        let policies = self.rules.get("policy").and_then(Value::as_table).into_iter().flatten();
        policies.map(|(name, policy)| (name, policy.as_table().expect("a policy is a table"))).collect()
    }
}

fn text<'a>(table: &'a Table, field: &str) -> Option<&'a str> {
    table.get(field).map(|value| value.as_str().unwrap_or_else(|| panic!("{field} is a text")))
}

fn flag(table: &Table, field: &str) -> bool {
    table.get(field).is_some_and(|value| value.as_bool().expect("a truth value"))
}

fn number<T: TryFrom<i64>>(table: &Table, field: &str) -> Option<T> {
    let number = table.get(field)?.as_integer().unwrap_or_else(|| panic!("{field} is a number"));
    Some(T::try_from(number).ok().unwrap_or_else(|| panic!("{field} is too large")))
}

fn duration(table: &Table, field: &str) -> Option<std::time::Duration> {
    text(table, field).map(|text| humantime::parse_duration(text).unwrap())
}

/// One value, or the values of a list.
fn each(value: &Value) -> &[Value] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    each(value).iter().map(|text| text.as_str().expect("a text")).collect()
}
