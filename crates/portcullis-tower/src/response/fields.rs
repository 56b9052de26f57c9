//! The headers that show clients their budget.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use portcullis_core::{Decision, Policy, PolicyName, Retry};

use super::individual::Individual;
use super::lines::Lines;
use super::names::{self, Name};
use super::prepared::{Figures, PreparedDenial};
use super::values::{self, ItemBuf};
use super::whole_seconds;
use crate::headers::{
    RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_POLICY, RATELIMIT_REMAINING, RATELIMIT_RESET, X_RATELIMIT_DEGRADED,
    X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET, X_RATELIMIT_SHADOW,
};
use portcullis_engine::PolicySet;
use portcullis_engine::is_in_flight;

bitflags::bitflags! {
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
    pub struct RateLimitHeaders: u8 {
        /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up. The default.
        const X_RATELIMIT = 1;
        /// `RateLimit-Policy` with the policies that count the request, and `RateLimit` with the decisive one, as structured
        /// fields:
        ///
        /// - `q`, the quota: the maximum of the remaining units; `w`, the window: the seconds in which `q` units are
        ///   replenished, rounded up, or instead `qu="concurrent-requests"` for a limit on requests in flight;
        /// - `r`, the remaining units; `t`, the seconds until there are more: on a rejection the value of `Retry-After`,
        ///   otherwise, only if nothing remains, the time until the next unit, rounded up.
        ///
        /// Source: draft-ietf-httpapi-ratelimit-headers-11.
        const IETF = 1 << 1;
        /// `RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up: the headers of the drafts
        /// before the two fields of [`IETF`](Self::IETF).
        ///
        /// Source: draft-ietf-httpapi-ratelimit-headers-06.
        const IETF_DRAFT_6 = 1 << 2;
        /// `X-RateLimit-Shadow` on responses to requests that a [shadow](crate::RateLimitLayer::shadow) policy would have
        /// rejected: the names of those policies. It shows clients limits that are not enforced yet.
        const SHADOW = 1 << 3;
        /// No headers of its own: see [`reset_as_unix_time`](Self::reset_as_unix_time).
        const UNIX_TIME = 1 << 4;
    }
}

impl RateLimitHeaders {
    /// No headers.
    pub const NONE: Self = Self::empty();

    /// Makes `X-RateLimit-Reset` the Unix time at which the full limit is available again, in whole seconds, rounded up, on the
    /// store's clock, as in the APIs of GitHub and X. The other headers do not change.
    #[must_use]
    pub const fn reset_as_unix_time(self) -> Self {
        self.union(Self::UNIX_TIME)
    }

    /// Returns the names of the headers that may be written. They include `X-RateLimit-Degraded`, which is set if the store could
    /// not answer; without figures, nothing was counted.
    pub fn names(self) -> impl Iterator<Item = HeaderName> {
        let degraded = self.has_figures().then(|| X_RATELIMIT_DEGRADED.clone());
        let names = FIGURES.into_iter().chain([(Self::SHADOW, &X_RATELIMIT_SHADOW)]);
        let names = names.filter(move |(group, _)| self.contains(*group));
        names.map(|(_, name)| name.clone()).chain(degraded)
    }

    /// Whether any header shows a budget.
    pub(super) const fn has_figures(self) -> bool {
        self.intersects(Self::X_RATELIMIT.union(Self::IETF).union(Self::IETF_DRAFT_6))
    }
}

impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self::X_RATELIMIT
    }
}

impl fmt::Debug for RateLimitHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_unix_time = self.contains(Self::UNIX_TIME);
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
    groups: RateLimitHeaders,
    /// The value of `RateLimit-Policy` where all listed policies count the request.
    all: Option<HeaderValue>,
    listed: Vec<Rendered>,
    /// Whether keys of a listed policy may have a quota of their own.
    any_individual: bool,
}

#[derive(Clone)]
struct Rendered {
    /// The index in the layer.
    index: usize,
    name: PolicyName,
    limit: u64,
    limit_value: HeaderValue,
    /// The item of `RateLimit-Policy`.
    item: HeaderValue,
    is_in_flight: bool,
    may_be_individual: bool,
    /// Present if a denial shows the three lines of `X-RateLimit` alone.
    denial: Option<PreparedDenial>,
}

impl Fields {
    pub(super) fn new<'a>(
        groups: RateLimitHeaders,
        listed: impl Iterator<Item = (usize, &'a Policy)>,
    ) -> Self {
        let mut listed: Vec<_> = listed.map(|(index, policy)| Rendered::new(index, policy)).collect();
        if groups.difference(RateLimitHeaders::SHADOW) == RateLimitHeaders::X_RATELIMIT {
            for policy in listed.iter_mut().filter(|policy| !policy.is_in_flight) {
                policy.denial = Some(PreparedDenial::new(&policy.limit_value));
            }
        }
        let has_list = groups.contains(RateLimitHeaders::IETF) && !listed.is_empty();
        let any_individual = listed.iter().any(|policy| policy.may_be_individual);
        let all = has_list.then(|| join(listed.iter().map(|policy| &policy.item)));
        Self { groups, all, listed, any_individual }
    }

    /// Writes the figures of the decisive decision, if it has any, and whether any decision about the request is degraded.
    /// Headers set by an inner layer win.
    pub(super) fn write_if_absent(
        &self,
        decisive: &Decision,
        all: &[Decision],
        individual: Individual<'_>,
        headers: &mut HeaderMap,
    ) {
        if !self.groups.has_figures() {
            return;
        }
        self.write_degraded(all.iter().any(Decision::is_degraded), headers);
        let shown = match self.listed(decisive.policy()) {
            Some(listed) => Some((decisive, listed)),
            None => {
                Decision::decisive(all.iter().filter(|decision| self.listed(decision.policy()).is_some()))
                    .and_then(|shown| Some((shown, self.listed(shown.policy())?)))
            }
        };
        if let Some((shown, listed)) = shown.filter(|(shown, _)| shown.is_metered())
            && !headers.keys().any(is_figure)
        {
            let counted =
                |listed: &Rendered| all.iter().any(|one| one.is_metered() && *one.policy() == listed.name);
            let mut lines = Lines::new(headers);
            self.write((shown, listed), None, counted, individual, &mut lines);
            lines.finish();
        }
    }

    /// Writes `Retry-After` and, unless the policy that denies is not listed, the figures of a denial, over existing headers.
    /// Returns whether the figures are written.
    ///
    /// `checked` are the policies that were checked. They are listed instead of those with a decision, so that a remembered denial,
    /// which has a single decision, has the same headers as one by the store.
    pub(super) fn write_denial(
        &self,
        denial: &Decision,
        checked: PolicySet,
        individual: Individual<'_>,
        retry_after: Option<Duration>,
        headers: &mut HeaderMap,
    ) -> bool {
        self.write_degraded(denial.is_degraded(), headers);
        let mut lines = Lines::new(headers);
        let listed = self.listed(denial.policy());
        if let Some(listed) = listed {
            let counts = |listed: &Rendered| checked.contains(listed.index);
            self.write((denial, listed), retry_after, counts, individual, &mut lines);
        }
        if let Some(wait) = retry_after {
            lines.push_number(names::retry_after, wait.as_secs());
        }
        lines.finish();
        if retry_after.is_none() {
            headers.remove(header::RETRY_AFTER);
        }
        listed.is_some() && self.groups.has_figures()
    }

    /// The headers of a denial by the type of its body, if they are prepared.
    pub(super) fn prepared_denial(
        &self,
        denial: &Decision,
        retry_after: Duration,
    ) -> Option<impl FnOnce(HeaderValue) -> HeaderMap> {
        let listed = self.listed(denial.policy()).filter(|listed| listed.limit == denial.limit())?;
        let prepared = listed.denial.as_ref().filter(|_| !denial.is_degraded())?;
        let figures = Figures {
            remaining: denial.remaining(),
            reset: whole_seconds(denial.reset_after()),
            retry_after: retry_after.as_secs(),
        };
        Some(move |content_type| prepared.with(content_type, &figures))
    }

    #[inline]
    fn listed(&self, policy: &PolicyName) -> Option<&Rendered> {
        self.listed.iter().find(|listed| listed.name == *policy)
    }

    fn write_degraded(&self, is_degraded: bool, headers: &mut HeaderMap) {
        if is_degraded && self.groups.has_figures() {
            headers.insert(&X_RATELIMIT_DEGRADED, HeaderValue::from_static("true"));
        }
    }

    /// `retry_after` is the value of that header.
    fn write(
        &self,
        (decision, listed): (&Decision, &Rendered),
        retry_after: Option<Duration>,
        counts: impl Fn(&Rendered) -> bool,
        individual: Individual<'_>,
        lines: &mut Lines<'_>,
    ) {
        // Under a limit on requests in flight it is unknown when more remain.
        let has_reset = !listed.is_in_flight;
        if self.groups.contains(RateLimitHeaders::X_RATELIMIT) {
            let reset = if self.groups.contains(RateLimitHeaders::UNIX_TIME) {
                decision.at().saturating_add(decision.reset_after()).as_micros().div_ceil(1_000_000)
            } else {
                whole_seconds(decision.reset_after())
            };
            push_limit(names::x_ratelimit_limit, decision, listed, lines);
            lines.push_number(names::x_ratelimit_remaining, decision.remaining());
            if has_reset {
                lines.push_number(names::x_ratelimit_reset, reset);
            }
        }
        if self.groups.contains(RateLimitHeaders::IETF_DRAFT_6) {
            push_limit(names::ratelimit_limit, decision, listed, lines);
            lines.push_number(names::ratelimit_remaining, decision.remaining());
            if has_reset {
                lines.push_number(names::ratelimit_reset, whole_seconds(decision.reset_after()));
            }
        }
        if let Some(all) = &self.all {
            let list = if self.any_individual && individual.any() {
                self.list_individual(individual, counts)
            } else if self.listed.iter().all(&counts) {
                all.clone()
            } else {
                join(self.listed.iter().filter(|listed| counts(listed)).map(|listed| &listed.item))
            };
            lines.push(names::ratelimit_policy, list);
            lines.render(names::ratelimit, |text| push_item(text, decision, retry_after, has_reset));
        }
    }

    /// The value of `RateLimit-Policy` for a caller or key with a quota of its own.
    #[cold]
    fn list_individual(&self, individual: Individual<'_>, counts: impl Fn(&Rendered) -> bool) -> HeaderValue {
        join(self.listed.iter().filter(|listed| counts(listed)).map(|listed| {
            let policy = individual.policy(&listed.name);
            policy.map_or_else(|| listed.item.clone(), |policy| Rendered::new(listed.index, policy).item)
        }))
    }
}

fn push_limit(name: Name, decision: &Decision, listed: &Rendered, lines: &mut Lines<'_>) {
    // A store may decide by a lower limit than the policy, such as the share of one instance.
    if listed.limit == decision.limit() {
        lines.push(name, listed.limit_value.clone());
    } else {
        lines.push_number(name, decision.limit());
    }
}

/// Whether a header shows a budget. Comparing the names of a response with it costs less than looking up all of [`FIGURES`],
/// because most responses have few headers.
fn is_figure(name: &HeaderName) -> bool {
    let text = name.as_str();
    (text.starts_with("ratelimit") || text.starts_with("x-ratelimit-"))
        && FIGURES.iter().any(|(_, figure)| *figure == name)
}

impl Rendered {
    fn new(index: usize, policy: &Policy) -> Self {
        let (name, strategy) = (policy.name(), policy.strategy());
        let limit = strategy.limit();
        let mut item = ItemBuf::new();
        values::push_string(&mut item, name);
        item.extend_from_slice(b";q=");
        values::push_integer(&mut item, limit);
        let is_in_flight = is_in_flight(policy);
        if is_in_flight {
            item.extend_from_slice(br#";qu="concurrent-requests""#);
        } else {
            item.extend_from_slice(b";w=");
            values::push_integer(&mut item, whole_seconds(strategy.window()).max(1));
        }
        let (limit_value, item) = (values::number(limit), values::value(&item));
        let may_be_individual = policy.reads_overrides() || policy.quota_range().is_some();
        Self {
            index,
            name: name.clone(),
            limit,
            limit_value,
            item,
            is_in_flight,
            may_be_individual,
            denial: None,
        }
    }
}

/// The value of `RateLimit-Policy`.
fn join(items: impl Iterator<Item = impl AsRef<[u8]>>) -> HeaderValue {
    let mut list = Vec::new();
    for item in items {
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(item.as_ref());
    }
    values::value(&list)
}

/// Appends the item of `RateLimit`. Its `t` is not later than `Retry-After`, which may be spread; it is the same, so that clients
/// that read it are spread as well.
fn push_item(text: &mut ItemBuf, decision: &Decision, shown: Option<Duration>, has_reset: bool) {
    values::push_string(text, decision.policy());
    text.extend_from_slice(b";r=");
    values::push_integer(text, decision.remaining());
    let more_after = match decision.retry() {
        Some(Retry::After(wait)) => Some(shown.map_or_else(|| retry_after(wait), |shown| shown.as_secs())),
        Some(Retry::Unknown | Retry::Never) => None,
        None => (has_reset && decision.remaining() == 0).then(|| whole_seconds(decision.next_after())),
    };
    if let Some(seconds) = more_after {
        text.extend_from_slice(b";t=");
        values::push_integer(text, seconds);
    }
}

/// The seconds of `Retry-After`: rounded up, at least 1.
pub(super) fn retry_after(wait: Duration) -> u64 {
    whole_seconds(wait).max(1)
}
