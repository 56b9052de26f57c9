//! `except`, `deny` and `only`: requests that are named strictly, as by the matchers of a layer.

use std::sync::Arc;

use http::request::Parts;
use portcullis_tower::matching::{
    GrpcMethod, MatcherError, Network, RequestMatcher, RequestPath, Undecided, matched_path,
};

use super::Reader;
use super::matching::method;
use crate::fields::Fields;
use crate::tree::Node;

type Shared = Arc<dyn RequestMatcher>;

impl Reader<'_> {
    pub(super) fn request_list(&self, fields: &mut Fields<'_>, field: &'static str) -> Vec<Shared> {
        let Some(node) = fields.node(field) else { return Vec::new() };
        let path = fields.path(field);
        node.each().iter().filter_map(|one| self.request_matcher(one, &path)).collect()
    }

    /// All fields of a table have to hold.
    fn request_matcher(&self, node: &Node, path: &str) -> Option<Shared> {
        let mut fields = Fields::of(node, path, self.findings)?;
        let networks = fields.texts("network").and_then(|networks| {
            let network = Network::try_of(&self.clients, networks.into_iter().map(|(network, _)| network));
            network.map_err(|error| fields.error("network", error.to_string())).ok()
        });
        let without = "the table matches no request";
        // Without it, a table that names more would match what it does not mean.
        let nothing = Some(shared(|_: &Parts| false));
        let function = self.function(&self.hooks.matchers, &mut fields, ["matcher"; 2], without, nothing);
        let all: Vec<Shared> = [
            networks.map(shared),
            fields.parse_with("path", RequestPath::try_exact).map(shared),
            fields.parse_with("prefix", RequestPath::try_prefix).map(shared),
            fields.parse_with("route", route).map(shared),
            fields.parse_with("method", method).map(shared),
            fields.parse_with("grpc", grpc).map(shared),
            // Last: the program is not asked about requests that another part excludes.
            function,
        ]
        .into_iter()
        .flatten()
        .collect();
        let conditions = ["network", "path", "prefix", "route", "method", "grpc", "function"];
        if conditions.iter().all(|field| !fields.has(field)) {
            fields
                .missing(&conditions, "the table names no requests")
                .help("write one of `path`, `prefix`, `route`, `network`, `method`, `grpc` and `function`");
        }
        fields.finish();
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(all.fold(first, |left, right| shared(left.and(right))))
    }
}

fn shared(matcher: impl RequestMatcher) -> Shared {
    Arc::new(matcher)
}

/// The route that Axum has matched, whichever features are enabled.
struct MatchedRoute(String);

impl RequestMatcher for MatchedRoute {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        matched_path(parts).map(|route| route == self.0).ok_or(Undecided::Ambiguous)
    }
}

fn route(pattern: &str) -> Result<MatchedRoute, MatcherError> {
    if pattern.starts_with('/') {
        return Ok(MatchedRoute(pattern.to_owned()));
    }
    Err(MatcherError::NotAbsolute { path: pattern.to_owned() })
}

fn grpc(name: &str) -> Result<GrpcMethod, MatcherError> {
    if name.contains('/') { GrpcMethod::try_named(name) } else { GrpcMethod::try_service(name) }
}
