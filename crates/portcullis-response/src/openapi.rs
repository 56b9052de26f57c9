//! Describes the responses of a layer in OpenAPI.
//!
//! The examples are rendered by the code that renders the responses.

mod body;
mod example;
mod headers;

use std::fmt::Write as _;

use http::HeaderName;
use portcullis_core::Policy;
use utoipa::openapi::{Response, ResponseBuilder};

use crate::fields::{ShownPolicy, whole_seconds};
use crate::rejection::Cause;
use crate::settings::ResponseSettings;
use example::Example;
use portcullis_engine::{PolicySet, Rejected, is_in_flight};

impl ResponseSettings {
    /// Describes the response 429 of a layer with these policies, which may reject requests.
    pub fn describe_limited(&self, enforced: &[ShownPolicy<'_>]) -> Response {
        let enforced = Enforced::of(enforced);
        let Some(first) = enforced.shown.first().or(enforced.hidden.first()) else {
            return Response::new(NEVER);
        };
        let checked = PolicySet::of(enforced.indexes.iter().copied());
        let example = example::denial_by(first);
        let example = example.as_ref().map(|outcome| {
            Example::render(self, Cause::Limits(&Rejected::Late { outcome: outcome.clone(), checked }))
        });
        let mut response = ResponseBuilder::new().description(self.description(&enforced));
        for header in self.headers_of_limited(&enforced) {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let own = name.ok().filter(|name| self.renames.name_of(name) != name);
            let name =
                own.map_or_else(|| header.name.to_string(), |name| self.renames.name_of(&name).to_string());
            response = response.header(name, header.build(example.as_ref()));
        }
        if self.custom.is_none() {
            let schema = body::quota_exceeded(&enforced);
            response = body::with_content(response, &schema, example.as_ref());
        }
        response.build()
    }

    /// Describes the response 503, which is the same for all policies.
    pub fn describe_unavailable(&self) -> Response {
        let example = Example::render(self, Cause::Limits(&Rejected::StoreFailed));
        let mut response = ResponseBuilder::new().description(UNAVAILABLE);
        response = response.header(headers::CACHE_CONTROL.name, headers::CACHE_CONTROL.build(Some(&example)));
        if self.custom.is_none() {
            response = body::with_content(response, &body::reduced_capacity(), Some(&example));
        }
        response.build()
    }

    /// States the limits that the headers show as well, and no other.
    fn description(&self, enforced: &Enforced<'_>) -> String {
        let mut text = String::from(LIMITED);
        if !self.headers.has_figures() || enforced.shown.is_empty() {
            return text;
        }
        text.push('\n');
        for policy in &enforced.shown {
            let (name, limit) = (policy.name(), policy.strategy().limit());
            let _ = if is_in_flight(policy) {
                write!(text, "\n- `{name}`: {limit} at the same time")
            } else {
                let window = whole_seconds(policy.strategy().window()).max(1);
                write!(text, "\n- `{name}`: {limit}, replenished in {window} s")
            };
        }
        if enforced.shown.iter().any(|policy| policy.reads_overrides() || policy.quota_range().is_some()) {
            text.push_str("\n\nA client may have another limit.");
        }
        text
    }
}

/// The policies that may reject a request.
struct Enforced<'a> {
    indexes: Vec<usize>,
    shown: Vec<&'a Policy>,
    hidden: Vec<&'a Policy>,
}

impl<'a> Enforced<'a> {
    fn of(enforced: &[ShownPolicy<'a>]) -> Self {
        let listed = |is_listed: bool| {
            let shown = enforced.iter().filter(move |shown| shown.is_listed == is_listed);
            shown.map(|shown| shown.policy).collect()
        };
        Self {
            indexes: enforced.iter().map(|shown| shown.index).collect(),
            shown: listed(true),
            hidden: listed(false),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &'a Policy> {
        self.shown.iter().chain(&self.hidden).copied()
    }
}

const LIMITED: &str = "Too many requests: the client has reached a limit.";
const NEVER: &str = "Not sent: no policy of the layer rejects requests.";
const UNAVAILABLE: &str =
    "The server cannot decide about the request at the moment: retry with a growing delay.";
