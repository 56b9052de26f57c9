//! Describes the responses of a layer in OpenAPI.
//!
//! The examples are rendered by the code that renders the responses.

mod body;
mod example;
mod headers;

use std::fmt::Write as _;

use portcullis_core::Policy;
use utoipa::openapi::{Response, ResponseBuilder};

use super::{Cause, ResponseSettings, whole_seconds};
use crate::policy::LayerPolicy;
use example::Example;
use portcullis_engine::PolicySet;
use portcullis_engine::Rejected;
use portcullis_engine::is_in_flight;

impl ResponseSettings {
    /// Describes the response 429 of a layer with these policies.
    pub(crate) fn describe_limited(&self, policies: &[LayerPolicy]) -> Response {
        let enforced = Enforced::of(policies);
        let Some(first) = enforced.shown.first().or(enforced.unlisted.first()) else {
            return Response::new(NEVER);
        };
        let checked = PolicySet::of(enforced.indexes.iter().copied());
        let example = example::denial_by(first);
        let example = example.as_ref().map(|outcome| {
            Example::render(self, Cause::Limits(&Rejected::Late { outcome: outcome.clone(), checked }))
        });
        let mut response = ResponseBuilder::new().description(self.description(&enforced));
        for header in self.headers_of_limited(&enforced) {
            response = response.header(header.name, header.build(example.as_ref()));
        }
        if self.custom.is_none() {
            let schema = body::quota_exceeded(&enforced);
            response = body::with_content(response, &schema, example.as_ref());
        }
        response.build()
    }

    /// Describes the response 503, which is the same for all policies.
    pub(crate) fn describe_unavailable(&self) -> Response {
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
    unlisted: Vec<&'a Policy>,
}

impl<'a> Enforced<'a> {
    fn of(policies: &'a [LayerPolicy]) -> Self {
        let enforced = || policies.iter().enumerate().filter(|(_, one)| one.is_enforced_for_some());
        let listed = |is_unlisted: bool| {
            enforced().filter(move |(_, one)| one.is_unlisted == is_unlisted).map(|(_, one)| &one.policy)
        };
        Self {
            indexes: enforced().map(|(index, _)| index).collect(),
            shown: listed(false).collect(),
            unlisted: listed(true).collect(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &'a Policy> {
        self.shown.iter().chain(&self.unlisted).copied()
    }
}

const LIMITED: &str = "Too many requests: the client has reached a limit.";
const NEVER: &str = "Not sent: no policy of the layer rejects requests.";
const UNAVAILABLE: &str =
    "The server cannot decide about the request at the moment: retry with a growing delay.";
