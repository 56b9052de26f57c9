//! The headers of rejections.

use std::borrow::Cow;

use portcullis_core::{FailureMode, Policy};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};

use super::{Enforced, Example};
use crate::RateLimitHeaders;
use crate::settings::ResponseSettings;
use portcullis_engine::is_in_flight;

/// A header that may be present.
#[derive(Clone)]
pub(super) struct Declared {
    /// In the case in which specifications write it.
    pub(super) name: Cow<'static, str>,
    description: Cow<'static, str>,
    values: Values,
}

#[derive(Clone, Copy)]
enum Values {
    /// An integer, and the least one.
    Integer(u32),
    /// The only value.
    Constant(&'static str),
    /// A regular expression.
    Pattern(&'static str),
}

impl Declared {
    const fn integer(name: &'static str, least: u32, description: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            description: Cow::Borrowed(description),
            values: Values::Integer(least),
        }
    }

    pub(super) fn build(&self, example: Option<&Example>) -> Header {
        let schema = ObjectBuilder::new();
        let schema = match self.values {
            Values::Integer(least) => schema
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(least)),
            Values::Constant(value) => schema.schema_type(Type::String).enum_values(Some([value])),
            Values::Pattern(pattern) => schema.schema_type(Type::String).pattern(Some(pattern)),
        };
        let text = example.and_then(|example| example.header(&self.name));
        let value = text.map(|text| match self.values {
            Values::Integer(_) => text.parse::<u64>().map_or_else(|_| text.into(), Into::into),
            Values::Constant(_) | Values::Pattern(_) => text.into(),
        });
        HeaderBuilder::new()
            .description(Some(self.description.as_ref()))
            .schema(Some(schema))
            .example(value)
            .build()
    }
}

impl ResponseSettings {
    /// The headers of a response 429: those that the layer writes with its settings, for one policy or another.
    pub(super) fn headers_of_limited(&self, enforced: &Enforced<'_>) -> Vec<Declared> {
        let mut headers = vec![CACHE_CONTROL];
        let has_wait = |policy: &Policy| !is_in_flight(policy) || policy.reads_overrides();
        if enforced.iter().any(has_wait) {
            headers.push(RETRY_AFTER);
        }
        let is_local = |policy: &Policy| matches!(policy.failure_mode(), FailureMode::Local { .. });
        if self.headers.has_figures() && enforced.iter().any(is_local) {
            headers.push(DEGRADED);
        }
        if enforced.shown.is_empty() {
            return headers;
        }
        let has_reset = !enforced.shown.iter().copied().all(is_in_flight);
        if self.headers.contains(RateLimitHeaders::X_RATELIMIT) {
            headers.extend(X_RATELIMIT);
            let is_unix_time = self.headers.contains(RateLimitHeaders::UNIX_TIME);
            headers.extend(has_reset.then_some(if is_unix_time { X_RESET_AT } else { X_RESET }));
        }
        if self.headers.contains(RateLimitHeaders::IETF) {
            headers.extend(IETF);
        }
        if self.headers.contains(RateLimitHeaders::IETF_DRAFT_6) {
            headers.extend(DRAFT_6);
            headers.extend(has_reset.then_some(RESET));
        }
        headers.extend(self.fields.own_names().map(|name| {
            let (figure, values) = match name.as_str().split('-').nth(2) {
                Some("limit") => ("The most units that can remain", Values::Integer(0)),
                Some("remaining") => ("The units that would be admitted right now", Values::Integer(0)),
                _ => ("The time until the full limit is available again", Values::Pattern(DURATION)),
            };
            let description = format!("{figure} under the policy of this name, if that denies.");
            Declared { name: Cow::Owned(name.to_string()), description: Cow::Owned(description), values }
        }));
        headers
    }
}

/// As Go writes it.
const DURATION: &str = "^([0-9]+h)?([0-9]+m)?[0-9.]+m?s$";

pub(super) const CACHE_CONTROL: Declared = Declared {
    name: Cow::Borrowed("Cache-Control"),
    description: Cow::Borrowed("A rejection is not stored."),
    values: Values::Constant("no-store"),
};
const RETRY_AFTER: Declared = Declared::integer(
    "Retry-After",
    1,
    "The seconds, rounded up, after which a retry can succeed. Absent if that is unknown.",
);
const DEGRADED: Declared = Declared {
    name: Cow::Borrowed("X-RateLimit-Degraded"),
    description: Cow::Borrowed(
        "Present while this instance decides by itself, because the store of the limits does not answer.",
    ),
    values: Values::Constant("true"),
};
const LIMIT: &str = "The most units that can remain under the decisive policy.";
const REMAINING: &str = "The units that would be admitted right now under the decisive policy.";
const RESET_AFTER: &str =
    "The seconds, rounded up, until the full limit of the decisive policy is available again.";
const X_RATELIMIT: [Declared; 2] = [
    Declared::integer("X-RateLimit-Limit", 0, LIMIT),
    Declared::integer("X-RateLimit-Remaining", 0, REMAINING),
];
const X_RESET: Declared = Declared::integer("X-RateLimit-Reset", 0, RESET_AFTER);
const X_RESET_AT: Declared = Declared::integer(
    "X-RateLimit-Reset",
    0,
    "The Unix time in seconds, rounded up, at which the full limit of the decisive policy is available again.",
);
const DRAFT_6: [Declared; 2] =
    [Declared::integer("RateLimit-Limit", 0, LIMIT), Declared::integer("RateLimit-Remaining", 0, REMAINING)];
const RESET: Declared = Declared::integer("RateLimit-Reset", 0, RESET_AFTER);
const IETF: [Declared; 2] = [
    Declared {
        name: Cow::Borrowed("RateLimit"),
        description: Cow::Borrowed(
            "The decisive policy, the units that remain (`r`), and the seconds until there are more (`t`).",
        ),
        values: Values::Pattern(r#"^"([^"\\]|\\.)+";r=\d{1,15}(;t=\d{1,15})?$"#),
    },
    Declared {
        name: Cow::Borrowed("RateLimit-Policy"),
        description: Cow::Borrowed(
            "The policies that count the request: the quota in units (`q`), and the seconds in which it is replenished \
                      (`w`) or the unit of a limit on concurrent requests (`qu`).",
        ),
        values: Values::Pattern(
            r#"^"([^"\\]|\\.)+";q=\d{1,15};(w=\d{1,15}|qu="concurrent-requests")(, "([^"\\]|\\.)+";q=\d{1,15};(w=\d{1,15}|qu="concurrent-requests"))*$"#,
        ),
    },
];
