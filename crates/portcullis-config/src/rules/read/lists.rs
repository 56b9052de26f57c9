//! `except`, `deny` and `only`: requests that are named strictly, as by the matchers of a layer.

use std::sync::Arc;

use http::request::Parts;
use portcullis_tower::matching::{
    GrpcMethod, MatcherError, Network, PlainPath, RequestMatcher, RequestPath, Undecided, matched_path,
};
use portcullis_tower::{Networks, TrustError};

use super::Reader;
use super::matching::method;
use crate::fields::Fields;
use crate::tables::REQUESTS;
use crate::tree::Node;

type Shared = Arc<dyn RequestMatcher>;

impl Reader<'_> {
    pub(super) fn request_list(&self, fields: &Fields<'_>, field: &'static str) -> Vec<Shared> {
        let path = fields.path(field);
        fields.each(field).filter_map(|one| self.request_matcher(one, &path)).collect()
    }

    /// All fields of a table have to hold.
    fn request_matcher(&self, node: &Node, path: &str) -> Option<Shared> {
        let fields = Fields::of(node, path, &REQUESTS, self.findings)?;
        let networks = fields.texts("network").and_then(|networks| parsed(&fields, "network", networks));
        let without = "the table matches no request";
        // Without it, a table that names more would match what it does not mean.
        let nothing = Some(shared(|_: &Parts| false));
        let function = self.function(&self.hooks.matchers, &fields, ["matcher"; 2], without, nothing);
        let all: Vec<Shared> = [
            networks.map(|networks| shared(Network::of(&self.clients, networks))),
            fields.parse::<PlainPath>("path").map(|path| shared(RequestPath::exact(&path))),
            fields.parse::<PlainPath>("prefix").map(|path| shared(RequestPath::prefix(&path))),
            fields.parse_with("route", route).map(shared),
            fields.parse_with("method", method).map(shared),
            fields.parse::<GrpcMethod>("grpc").map(shared),
        ]
        .into_iter()
        .flatten()
        .chain(self.values(&fields).into_iter().map(|value| shared(value.matcher().clone())))
        .chain(
            // Last: the program is not asked about requests that another part excludes.
            function,
        )
        .collect();
        if fields.is_empty() {
            fields
                .missing_any("the table names no requests")
                .help("write one of `path`, `prefix`, `route`, `network`, `method`, `grpc`, `function`, `headers` and `query`");
        }
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(all.fold(first, |left, right| shared(left.and(right))))
    }
}

/// The networks of a field, or a finding for each text that is none.
pub(super) fn parsed(fields: &Fields<'_>, field: &str, texts: Vec<(&str, &Node)>) -> Option<Networks> {
    let networks = Networks::new(texts.into_iter().map(|(network, _)| network));
    let finding = |mistake: TrustError| {
        fields.error(field, mistake.to_string());
    };
    networks.map_err(|mistakes| mistakes.into_iter().for_each(finding)).ok()
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
