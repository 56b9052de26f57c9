//! The headers that show clients their budget.

mod by_policy;
mod fraction;
mod groups;
mod individual;
mod lines;
mod names;
mod prepared;
mod renames;
mod shown;
mod soft_limits;
pub(crate) mod values;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use portcullis_core::{Decision, Policy, PolicyName, Retry};

use crate::headers::X_RATELIMIT_DEGRADED;
use portcullis_engine::{PolicySet, is_in_flight};

use by_policy::OwnHeaders;
pub use fraction::Fraction;
pub use groups::RateLimitHeaders;
use groups::is_figure;
pub use individual::Individual;
use lines::Lines;
use names::Name;
use prepared::{Figures, PreparedDenial};
pub use renames::{HeaderRenameError, HeaderRenames};
pub use shown::ShownPolicy;
pub use soft_limits::SoftLimits;
use values::ItemBuf;
pub use values::list as names_of_policies;

/// The headers of one layer, with the values that are rendered ahead.
#[derive(Clone, Default)]
pub(crate) struct Fields {
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
    /// Whether it counts nothing, so that it is not shown.
    is_unlimited: bool,
    may_be_individual: bool,
    /// Present if a denial shows the three lines of `X-RateLimit` alone.
    denial: Option<PreparedDenial>,
    /// Present if each policy has headers of its own.
    own: Option<Box<OwnHeaders>>,
}

impl Fields {
    pub(crate) fn new<'a>(
        groups: RateLimitHeaders,
        listed: impl Iterator<Item = (usize, &'a Policy)>,
    ) -> Self {
        let mut listed: Vec<_> = listed.map(|(index, policy)| Rendered::new(index, policy)).collect();
        if groups.difference(RateLimitHeaders::SHADOW) == RateLimitHeaders::X_RATELIMIT {
            for policy in listed.iter_mut().filter(|policy| !policy.is_in_flight) {
                policy.denial = Some(PreparedDenial::new(&policy.limit_value));
            }
        }
        if groups.contains(RateLimitHeaders::BY_POLICY) {
            for policy in listed.iter_mut().filter(|policy| !policy.is_unlimited) {
                policy.own = Some(Box::new(OwnHeaders::of(&policy.name)));
            }
        }
        let has_list = groups.contains(RateLimitHeaders::IETF) && !listed.is_empty();
        let any_individual = listed.iter().any(|policy| policy.may_be_individual);
        let all = has_list.then(|| join(listed.iter().map(|policy| &policy.item)));
        Self { groups, all, listed, any_individual }
    }

    /// Writes the figures of the decisive decision, if it has any, and whether any decision about the request is degraded.
    /// Headers set by an inner layer win. Returns whether the figures are written.
    pub(crate) fn write_if_absent(
        &self,
        decisive: &Decision,
        all: &[Decision],
        individual: Individual<'_>,
        headers: &mut HeaderMap,
    ) -> bool {
        if !self.groups.has_figures() {
            return false;
        }
        self.write_degraded(all.iter().any(Decision::is_degraded), headers);
        if self.groups.contains(RateLimitHeaders::BY_POLICY) {
            self.write_own(all, headers);
        }
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
            return true;
        }
        false
    }

    /// Writes `Retry-After` and, unless the policy that denies is not listed, the figures of a denial, over existing headers.
    /// Returns whether the figures are written.
    ///
    /// `checked` are the policies that were checked. They are listed instead of those with a decision, so that a remembered denial,
    /// which has a single decision, has the same headers as one by the store.
    pub(crate) fn write_denial(
        &self,
        denial: &Decision,
        checked: PolicySet,
        individual: Individual<'_>,
        retry_after: Option<u64>,
        headers: &mut HeaderMap,
    ) -> bool {
        self.write_degraded(denial.is_degraded(), headers);
        if self.groups.contains(RateLimitHeaders::BY_POLICY) {
            self.write_own(std::slice::from_ref(denial), headers);
        }
        let mut lines = Lines::new(headers);
        let listed = self.listed(denial.policy());
        if let Some(listed) = listed {
            let counts = |listed: &Rendered| checked.contains(listed.index);
            self.write((denial, listed), retry_after, counts, individual, &mut lines);
        }
        if let Some(wait) = retry_after {
            lines.push_number(names::retry_after, wait);
        }
        lines.finish();
        if retry_after.is_none() {
            headers.remove(header::RETRY_AFTER);
        }
        listed.is_some() && self.groups.has_figures()
    }

    /// The headers of a denial by the type of its body, if they are prepared.
    pub(crate) fn prepared_denial(
        &self,
        denial: &Decision,
        retry_after: u64,
    ) -> Option<impl FnOnce(HeaderValue) -> HeaderMap> {
        let listed = self.listed(denial.policy()).filter(|listed| listed.limit == denial.limit())?;
        let prepared = listed.denial.as_ref().filter(|_| !denial.is_degraded())?;
        let figures = Figures {
            remaining: denial.remaining(),
            reset: whole_seconds(denial.reset_after()),
            retry_after,
        };
        Some(move |content_type| prepared.with(content_type, &figures))
    }

    #[inline]
    fn listed(&self, policy: &PolicyName) -> Option<&Rendered> {
        self.listed.iter().find(|listed| listed.name == *policy)
    }

    /// The names of the headers that single policies have.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.listed.iter().filter_map(|listed| listed.own.as_deref()).flat_map(OwnHeaders::names)
    }

    /// Writes the headers of each listed policy that counts the request.
    #[cold]
    fn write_own(&self, decisions: &[Decision], headers: &mut HeaderMap) {
        for decision in decisions.iter().filter(|decision| decision.is_metered()) {
            if let Some(listed) = self.listed(decision.policy())
                && let Some(own) = &listed.own
            {
                own.write(decision, has_reset(decision, listed), headers);
            }
        }
    }

    fn write_degraded(&self, is_degraded: bool, headers: &mut HeaderMap) {
        if is_degraded && self.groups.has_figures() {
            headers.insert(&X_RATELIMIT_DEGRADED, HeaderValue::from_static("true"));
        }
    }

    /// `retry_after` is the value of that header, in seconds.
    fn write(
        &self,
        (decision, listed): (&Decision, &Rendered),
        retry_after: Option<u64>,
        counts: impl Fn(&Rendered) -> bool,
        individual: Individual<'_>,
        lines: &mut Lines<'_>,
    ) {
        let has_reset = has_reset(decision, listed);
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
            } else if self.listed.iter().all(|listed| !listed.is_unlimited && counts(listed)) {
                all.clone()
            } else {
                let shown = |listed: &&Rendered| !listed.is_unlimited && counts(listed);
                join(self.listed.iter().filter(shown).map(|listed| &listed.item))
            };
            lines.push(names::ratelimit_policy, list);
            lines.render(names::ratelimit, |text| push_item(text, decision, retry_after, has_reset));
        }
    }

    /// The value of `RateLimit-Policy` for a caller or key with a quota of its own.
    #[cold]
    fn list_individual(&self, individual: Individual<'_>, counts: impl Fn(&Rendered) -> bool) -> HeaderValue {
        join(self.listed.iter().filter(|listed| counts(listed)).filter_map(|listed| {
            let policy = individual.policy(&listed.name);
            let own = policy.map(|policy| Rendered::new(listed.index, policy));
            let shown = own.as_ref().unwrap_or(listed);
            (!shown.is_unlimited).then(|| shown.item.clone())
        }))
    }
}

/// Under a limit on requests in flight it is unknown when more remain.
fn has_reset(decision: &Decision, listed: &Rendered) -> bool {
    !listed.is_in_flight && decision.limit() > 0
}

fn push_limit(name: Name, decision: &Decision, listed: &Rendered, lines: &mut Lines<'_>) {
    // A store may decide by a lower limit than the policy, such as the share of one instance.
    if listed.limit == decision.limit() {
        lines.push(name, listed.limit_value.clone());
    } else {
        lines.push_number(name, decision.limit());
    }
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
            is_unlimited: policy.is_unlimited(),
            may_be_individual,
            denial: None,
            own: None,
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
fn push_item(text: &mut ItemBuf, decision: &Decision, shown: Option<u64>, has_reset: bool) {
    values::push_string(text, decision.policy());
    text.extend_from_slice(b";r=");
    values::push_integer(text, decision.remaining());
    let more_after = match decision.retry() {
        Some(Retry::After(wait)) => Some(shown.unwrap_or_else(|| retry_after(wait))),
        Some(Retry::Unknown | Retry::Never) => None,
        None => (has_reset && decision.remaining() == 0).then(|| whole_seconds(decision.next_after())),
    };
    if let Some(seconds) = more_after {
        text.extend_from_slice(b";t=");
        values::push_integer(text, seconds);
    }
}

/// The seconds of `Retry-After`: rounded up, at least 1.
pub(crate) fn retry_after(wait: Duration) -> u64 {
    whole_seconds(wait).max(1)
}

/// Rounded up, so that a retry after this number of seconds is not too early.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// A rejection is never cached.
pub(crate) static NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
