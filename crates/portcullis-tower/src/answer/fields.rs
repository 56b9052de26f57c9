//! The headers that show clients their budget.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use portcullis_core::{Decision, Policy, PolicyName, Retry};

use super::values::{self, ItemBuf};
use super::whole_seconds;
use crate::headers::{
    RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_POLICY, RATELIMIT_REMAINING, RATELIMIT_RESET, X_RATELIMIT_DEGRADED,
    X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET, X_RATELIMIT_SHADOW,
};

/// The headers that show clients their budget. Combine them with `|`.
///
/// They show the same decision, that of the decisive policy, on responses to admitted requests and on rejections. `Retry-After`
/// is not one of them: every rejection for which a retry can succeed has it.
///
/// A shared cache that stores a response stores the figures of one client and shows them to others: use [`NONE`](Self::NONE)
/// if responses are cacheable, or make them `Cache-Control: private`.
///
/// ```
/// use portcullis_tower::RateLimitHeaders;
///
/// let both = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF;
/// let names: Vec<_> = both.names().map(|name| name.to_string()).collect();
/// assert_eq!(names[..2], ["x-ratelimit-limit", "x-ratelimit-remaining"]);
/// assert!(names.contains(&"ratelimit-policy".to_owned()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RateLimitHeaders(u8);

impl RateLimitHeaders {
    /// No headers.
    pub const NONE: Self = Self(0);
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up. The default.
    pub const X_RATELIMIT: Self = Self(1);
    /// `RateLimit-Policy` with all policies of the layer, and `RateLimit` with the decisive one, as structured fields:
    ///
    /// - `q`, the quota: the maximum of the remaining units; `w`, the window: the seconds in which `q` units are replenished,
    ///   rounded up;
    /// - `r`, the remaining units; `t`, the seconds until there are more: on a rejection the value of `Retry-After`, otherwise,
    ///   only if nothing remains, the time until the next unit, rounded up.
    ///
    /// Source: draft-ietf-httpapi-ratelimit-headers-11.
    pub const IETF: Self = Self(2);
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up: the headers of the drafts before
    /// the two fields of [`IETF`](Self::IETF).
    ///
    /// Source: draft-ietf-httpapi-ratelimit-headers-06.
    pub const IETF_DRAFT_6: Self = Self(4);
    /// `X-RateLimit-Shadow` on responses to requests that a [shadow](crate::RateLimitLayer::shadow) policy would have
    /// rejected: the names of those policies. It shows clients limits that are not enforced yet.
    pub const SHADOW: Self = Self(8);

    const UNIX_TIME: u8 = 16;

    /// Makes `X-RateLimit-Reset` the Unix time at which the full limit is available again, in whole seconds, rounded up, on the
    /// store's clock, as in the APIs of GitHub and X. The other headers do not change.
    #[must_use]
    pub const fn reset_as_unix_time(self) -> Self {
        Self(self.0 | Self::UNIX_TIME)
    }

    /// Returns the names of the headers that may be written. They include `X-RateLimit-Degraded`, which is set if the store could
    /// not answer; without figures, nothing was counted.
    pub fn names(self) -> impl Iterator<Item = HeaderName> {
        let degraded = self.has_figures().then(|| X_RATELIMIT_DEGRADED.clone());
        let names = FIGURES.into_iter().chain([(Self::SHADOW, &X_RATELIMIT_SHADOW)]);
        let names = names.filter(move |(group, _)| self.contains(*group));
        names.map(|(_, name)| name.clone()).chain(degraded)
    }

    /// Returns whether all headers of `other` are included.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any header shows a budget.
    pub(super) const fn has_figures(self) -> bool {
        self.0 & (Self::X_RATELIMIT.0 | Self::IETF.0 | Self::IETF_DRAFT_6.0) != 0
    }
}

impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self::X_RATELIMIT
    }
}

impl BitOr for RateLimitHeaders {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for RateLimitHeaders {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for RateLimitHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_unix_time = self.contains(Self(Self::UNIX_TIME));
        let names = self.names().map(|name| {
            let more = if name == X_RATELIMIT_RESET && is_unix_time { " (Unix time)" } else { "" };
            format!("{name}{more}")
        });
        f.debug_set().entries(names).finish()
    }
}

/// The headers that show a budget.
static FIGURES: [(RateLimitHeaders, &HeaderName); 8] = [
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_LIMIT),
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_REMAINING),
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_RESET),
    (RateLimitHeaders::IETF, &RATELIMIT),
    (RateLimitHeaders::IETF, &RATELIMIT_POLICY),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_LIMIT),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_REMAINING),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_RESET),
];

/// The headers of one layer, with the values that are rendered ahead.
#[derive(Clone, Default)]
pub(super) struct Fields {
    which: RateLimitHeaders,
    /// The value of `RateLimit-Policy`.
    all: Option<HeaderValue>,
    policies: Vec<Rendered>,
}

#[derive(Clone)]
struct Rendered {
    name: PolicyName,
    limit: u32,
    limit_value: HeaderValue,
}

impl Fields {
    pub(super) fn new<'a>(which: RateLimitHeaders, enforced: impl Iterator<Item = &'a Policy>) -> Self {
        let mut all = Vec::new();
        let mut policies = Vec::new();
        for policy in enforced {
            let (name, strategy) = (policy.name(), policy.strategy());
            let mut item = ItemBuf::new();
            values::push_string(&mut item, name);
            item.extend_from_slice(b";q=");
            values::push_integer(&mut item, strategy.limit().into());
            item.extend_from_slice(b";w=");
            values::push_integer(&mut item, whole_seconds(strategy.window()).max(1));
            if !all.is_empty() {
                all.extend_from_slice(b", ");
            }
            all.extend_from_slice(&item);
            let limit = strategy.limit();
            policies.push(Rendered { name: name.clone(), limit, limit_value: values::number(limit.into()) });
        }
        let all = (which.contains(RateLimitHeaders::IETF) && !all.is_empty()).then(|| values::value(&all));
        Self { which, all, policies }
    }

    pub(super) fn which(&self) -> RateLimitHeaders {
        self.which
    }

    /// Writes the figures of a decision, if it has any, and whether any decision about the request is degraded. Headers set by an
    /// inner layer win.
    pub(super) fn write_if_absent(&self, decision: &Decision, is_degraded: bool, headers: &mut HeaderMap) {
        if !self.which.has_figures() {
            return;
        }
        self.write_degraded(is_degraded, headers);
        if decision.is_metered() && !FIGURES.iter().any(|(_, name)| headers.contains_key(*name)) {
            self.write(decision, headers);
        }
    }

    /// Writes the figures of a denial, over existing headers.
    pub(super) fn write_denial(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.write_degraded(decision.is_degraded(), headers);
        self.write(decision, headers);
    }

    fn write_degraded(&self, is_degraded: bool, headers: &mut HeaderMap) {
        if is_degraded && self.which.has_figures() {
            headers.insert(&X_RATELIMIT_DEGRADED, HeaderValue::from_static("true"));
        }
    }

    fn write(&self, decision: &Decision, headers: &mut HeaderMap) {
        if self.which.contains(RateLimitHeaders::X_RATELIMIT) {
            let reset = if self.which.contains(RateLimitHeaders(RateLimitHeaders::UNIX_TIME)) {
                decision.at().saturating_add(decision.reset_after()).as_micros().div_ceil(1_000_000)
            } else {
                whole_seconds(decision.reset_after())
            };
            headers.insert(&X_RATELIMIT_LIMIT, self.limit(decision));
            headers.insert(&X_RATELIMIT_REMAINING, values::number(decision.remaining().into()));
            headers.insert(&X_RATELIMIT_RESET, values::number(reset));
        }
        if self.which.contains(RateLimitHeaders::IETF_DRAFT_6) {
            headers.insert(&RATELIMIT_LIMIT, self.limit(decision));
            headers.insert(&RATELIMIT_REMAINING, values::number(decision.remaining().into()));
            headers.insert(&RATELIMIT_RESET, values::number(whole_seconds(decision.reset_after())));
        }
        if let Some(all) = &self.all {
            headers.insert(&RATELIMIT_POLICY, all.clone());
            headers.insert(&RATELIMIT, item(decision));
        }
    }

    fn limit(&self, decision: &Decision) -> HeaderValue {
        // A store may decide by a lower limit than the policy, such as the share of one instance.
        let rendered = self
            .policies
            .iter()
            .find(|policy| policy.limit == decision.limit() && policy.name == *decision.policy());
        rendered.map_or_else(|| values::number(decision.limit().into()), |policy| policy.limit_value.clone())
    }
}

/// The item of `RateLimit`.
fn item(decision: &Decision) -> HeaderValue {
    let mut item = ItemBuf::new();
    values::push_string(&mut item, decision.policy());
    item.extend_from_slice(b";r=");
    values::push_integer(&mut item, decision.remaining().into());
    let more_after = match decision.retry() {
        Some(Retry::After(wait)) => Some(retry_after(wait)),
        Some(Retry::Never) => None,
        None => (decision.remaining() == 0).then(|| whole_seconds(decision.next_after())),
    };
    if let Some(seconds) = more_after {
        item.extend_from_slice(b";t=");
        values::push_integer(&mut item, seconds);
    }
    values::value(&item)
}

/// The seconds of `Retry-After`: rounded up, at least 1.
pub(super) fn retry_after(wait: std::time::Duration) -> u64 {
    whole_seconds(wait).max(1)
}

/// The headers to expose to pages of other origins.
pub(crate) fn exposed(headers: RateLimitHeaders) -> Vec<HeaderName> {
    headers.names().chain([header::RETRY_AFTER]).collect()
}
