//! `[policy.NAME]`: one rule, or two where it has a limit on requests in flight besides.

use std::sync::Arc;

use portcullis_core::overrides::LockOut;
use portcullis_core::{
    Concurrency, FailureMode, InFlight, LeaseError, Policy, PolicyError, PolicyName, PolicyPartError,
    PolicySettings, Quota, QuotaError, Strategy, WindowTable,
};
use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{Cost, Limit, Mode, OnMissing};

use super::super::charge_when::ChargeWhen;
use super::super::explain::Exceptions;
use super::super::key::{Key, KeySource};
use super::super::matcher::Matcher;
use super::super::rule::{RejectWithOption, Rule};
use super::Reader;
use crate::fields::Fields;
use crate::source::Span;
use crate::tables::{ON_ABORT, ON_MISSING, POLICY, UNTIL};
use crate::tree::{Entry, Node};

impl Reader<'_> {
    /// The rules of a table. In place of a part that is wrong, they have one that is refused nowhere, so that the other parts can be
    /// checked.
    pub(super) fn policy(&self, entry: &Entry, path: &str) -> Vec<Rule> {
        let Some(fields) = Fields::of(&entry.node, path, &POLICY, self.findings) else { return Vec::new() };
        let name = PolicyName::new(&entry.name).unwrap_or_else(|error| {
            self.findings.error(&*fields.path, entry.name_span, error.to_string());
            PolicyName::new("unnamed").expect("the name is valid")
        });
        let kind = fields.node("strategy").and_then(Node::text).unwrap_or_default();
        let policy = Self::plain_policy(&fields, &name, kind);
        let parts = self.parts(&fields, entry);
        let rule = self.rule(&fields, policy, kind, &parts, name);
        let in_flight = self.in_flight(&fields, rule.policy(), &parts);
        std::iter::once(rule).chain(in_flight).collect()
    }

    /// What a policy shares with the limit on requests in flight in its table.
    fn parts(&self, fields: &Fields<'_>, entry: &Entry) -> Parts {
        let mode = self.mode(fields).unwrap_or_default();
        if mode == Mode::Off {
            fields.warning("mode", "the policy is off: it limits nothing");
        }
        let key = fields.node("key");
        let key = key.and_then(|node| self.key(node, &fields.path("key"))).unwrap_or(Key::ClientIp);
        let except = self.request_list(fields, "except");
        let relaxed = except.iter().any(RequestMatcher::is_chosen_by_client);
        let relaxed =
            relaxed.then(|| (fields.path("except"), fields.span_of("except"))).into_iter().collect();
        let source = key.source(&self.clients, self.hooks, except.clone());
        let on_missing = fields.choice("on_missing", &ON_MISSING).unwrap_or_default();
        if on_missing == OnMissing::Shared {
            fields.warning(
                "on_missing",
                "all requests without an identity share one budget, so that one client can use it up for all of them",
            );
        }
        Parts {
            mode,
            source: source.unwrap_or_else(|| KeySource::Sync(Arc::new(self.clients.clone()))),
            key,
            key_span: fields.span_of("key"),
            matcher: self.matcher(fields).unwrap_or_else(Matcher::everything),
            match_span: fields.span_of("match"),
            relaxed,
            on_missing,
            count_rejections: fields.read("count_rejections").unwrap_or_default(),
            hide: fields.read("hide").unwrap_or_default(),
            hide_key: fields.read("hide_key").unwrap_or_default(),
            reject_with: RejectWithOption(self.reject_with(fields)),
            except: Exceptions(except),
            table: entry.name.clone(),
            span: entry.name_span,
        }
    }

    fn rule(
        &self,
        fields: &Fields<'_>,
        policy: Option<Policy>,
        kind: &str,
        parts: &Parts,
        name: PolicyName,
    ) -> Rule {
        let is_valid = policy.is_some();
        let (policy, quota) = if let Some(policy) = policy {
            self.tiers(fields, policy, kind)
        } else {
            self.tiers_alone(fields);
            (Policy::new(name, stand_in(kind)), None)
        };
        let charge_when = self.charge_when(fields);
        // Other quotas of single callers, and charges by the outcome, may admit what the policy's own limit does not.
        let is_exact = policy.quota_range().is_none() && !policy.reads_overrides() && charge_when.is_none();
        let most = (is_valid && is_exact).then(|| policy.strategy().limit());
        let cost = self.cost(fields, most.filter(|most| *most > 0));
        let (cost, is_left) = cost.map_or((None, false), |read| (Some(read.cost), read.is_left_by_writing));
        let charge_when = charge_when.map(Arc::new);
        let lock_out = self.lock_out(fields);
        let mut limit = parts.limit(policy);
        if let Some(add_quota) = quota {
            limit = add_quota(limit);
        }
        if let Some(tiers) = fields.node("tiers") {
            limit = limit.describe_quotas(&format!("quotas of callers {tiers}"));
        }
        if let Some(charge_when) = charge_when.clone() {
            limit = limit.charge_when(move |outcome| charge_when.charges(outcome));
        }
        if let Some(responses) = fields.node("charge_when") {
            limit = limit.describe_charged(&format!("responses of {responses}"));
        }
        limit = Self::charge_after(fields, limit);
        if let Some(lock_out) = lock_out {
            limit = limit.lock_out(lock_out);
        }
        limit = Self::plain_options(fields, limit, cost);
        self.refuse(&limit, fields);
        let mut rule = parts.rule(limit, lock_out, charge_when);
        rule.tiers = self.tier_names(fields).map(Arc::new);
        rule.relaxed.extend(is_left.then(|| (fields.path("cost"), fields.span_of("cost"))));
        rule
    }

    /// The options that are a value and nothing else.
    fn plain_options(fields: &Fields<'_>, mut limit: Limit, cost: Option<Box<dyn Cost>>) -> Limit {
        let reserve = fields.choice("reserve", &ON_ABORT);
        limit = match (reserve, cost) {
            (Some(on_abort), Some(cost)) => limit.reserve_by_or(cost, on_abort),
            (Some(on_abort), None) => limit.reserve_or(1, on_abort),
            (None, Some(cost)) => limit.cost_by(cost),
            (None, None) => limit,
        };
        limit = Self::usage(fields, limit);
        if let Some(cost) = fields.node("cost") {
            limit = limit.describe_cost(&cost.to_string());
        }
        if fields.read("refund_unanswered").unwrap_or_default() {
            limit = limit.refund_unanswered();
        }
        if fields.choice("until", &UNTIL).unwrap_or_default() {
            limit = limit.release_at_headers();
        }
        if fields.read("report").unwrap_or_default() {
            limit = limit.report();
        }
        match fields.read("warn_at") {
            Some(fraction) => limit.warn_at(fraction),
            None => limit,
        }
    }

    /// The policy without tiers. `kind` is the name of its strategy. `None` after a finding about the strategy.
    fn plain_policy(fields: &Fields<'_>, name: &PolicyName, kind: &str) -> Option<Policy> {
        let in_flight = kind == IN_FLIGHT;
        let known: &[&'static str] =
            if in_flight { &STRATEGY } else { STRATEGY.get(1..).unwrap_or_default() };
        let strategy = fields.sub_with(known, |part| Strategy::deserialize_with_windows(part, windows));
        let lease: Option<u64> = if in_flight { None } else { fields.read("lease") };
        let failure: Option<FailureMode> = fields.read("on_store_failure");
        let wait = fields.duration("wait");
        let debt: Option<u64> = fields.read("debt");
        let overrides: Option<bool> = fields.read("overrides");
        let Some(strategy) = strategy else {
            let settings = PolicySettings { max_wait: wait, ..PolicySettings::default() };
            with(fields, name.as_str(), Ok(stand_in("")), settings);
            return None;
        };
        let settings = PolicySettings {
            failure_mode: failure.unwrap_or_default(),
            max_lease: lease,
            max_wait: wait,
            max_debt: debt,
            caller_quotas: None,
            allow_overrides: overrides.unwrap_or_default(),
        };
        with(fields, name.as_str(), Ok(strategy), settings)
    }

    /// A limit on requests in flight beside the policy: by the same key, for the same requests.
    fn in_flight(&self, fields: &Fields<'_>, beside: &Policy, parts: &Parts) -> Option<Rule> {
        let fields = fields.table("in_flight")?;
        let limit: Option<u64> = fields.read("limit");
        if limit == Some(0) {
            fields
                .error("limit", "no request would be admitted")
                .help("write 1 or more, or close the policy itself by quota = \"0/s\"");
        }
        let (lease, wait) = (fields.duration("lease"), fields.duration("wait"));
        let failure: Option<FailureMode> = fields.read("on_store_failure");
        let release_at_headers = fields.choice("until", &UNTIL).unwrap_or_default();
        let name = format!("{}.in_flight", beside.name());
        // Where the limit is wrong, another one stands in for it, so that the lease is checked.
        let permits = InFlight::new(limit.unwrap_or(1));
        let one = permits.or(InFlight::new(1));
        let leased = one.and_then(|one| lease.map_or(Ok(one), |lease| one.with_lease(lease)));
        if let (Err(_), Err(error)) = (permits, leased) {
            fields.error("lease", format!("policy {name}: {error}"));
        }
        let settings = PolicySettings {
            failure_mode: failure.unwrap_or_default(),
            max_wait: wait,
            ..PolicySettings::default()
        };
        let policy = with(&fields, &name, permits.and(leased), settings);
        if is_in_flight(beside) {
            self.findings
                .error(&*fields.path, fields.node.span, "the policy limits requests in flight already")
                .help("leave out `in_flight`");
        }
        let limit = parts.limit(policy.filter(|_| limit.is_some_and(|limit| limit > 0))?);
        Some(parts.rule(if release_at_headers { limit.release_at_headers() } else { limit }, None, None))
    }
}

/// What the rules of a table have in common.
struct Parts {
    mode: Mode,
    key: Key,
    key_span: Span,
    source: KeySource,
    matcher: Matcher,
    match_span: Span,
    relaxed: Vec<(String, Span)>,
    on_missing: OnMissing,
    count_rejections: bool,
    hide: bool,
    hide_key: bool,
    reject_with: RejectWithOption,
    except: Exceptions,
    table: String,
    span: Span,
}

impl Parts {
    fn limit(&self, policy: Policy) -> Limit {
        let mut limit = self.source.limit(policy).mode(self.mode).on_missing(self.on_missing);
        if self.count_rejections {
            limit = limit.count_rejections();
        }
        if self.hide_key {
            limit = limit.hide_key();
        }
        if self.hide { limit.hide() } else { limit }
    }

    fn rule(&self, limit: Limit, lock_out: Option<LockOut>, charge_when: Option<Arc<ChargeWhen>>) -> Rule {
        Rule {
            limit,
            mode: self.mode,
            lock_out,
            charge_when,
            table: self.table.clone(),
            span: self.span,
            key: self.key.clone(),
            key_span: self.key_span,
            matcher: self.matcher.clone(),
            match_span: self.match_span,
            relaxed: self.relaxed.clone(),
            reject_with: self.reject_with.clone(),
            except: self.except.clone(),
            tiers: None,
        }
    }
}

/// The policy with those settings that it can have. The others are errors of their fields.
fn with(
    fields: &Fields<'_>,
    name: &str,
    strategy: Result<impl Into<Strategy> + Copy, QuotaError>,
    settings: PolicySettings,
) -> Option<Policy> {
    let errors = match Policy::try_new(name, strategy, settings) {
        Ok(policy) => return Some(policy),
        Err(errors) => errors,
    };
    let field = |error: &PolicyError| match error {
        PolicyError::Part { error: PolicyPartError::FailureMode(_), .. } => "on_store_failure",
        PolicyError::Part { error: PolicyPartError::Lease(LeaseError::Overrides), .. } => "overrides",
        PolicyError::Part {
            error: PolicyPartError::Lease(_) | PolicyPartError::Quota(QuotaError::InvalidLease(_)),
            ..
        } => "lease",
        PolicyError::Part { error: PolicyPartError::Wait(_), .. } => "wait",
        PolicyError::Part { error: PolicyPartError::Debt(_), .. } => "debt",
        _ => "limit",
    };
    for error in errors.iter() {
        fields.error(field(error), error.to_string());
    }
    let is_right = |name| errors.iter().all(|error| field(error) != name);
    let rest = PolicySettings {
        failure_mode: if is_right("on_store_failure") {
            settings.failure_mode
        } else {
            FailureMode::default()
        },
        max_lease: settings.max_lease.filter(|_| is_right("lease")),
        max_wait: settings.max_wait.filter(|_| is_right("wait")),
        max_debt: settings.max_debt.filter(|_| is_right("debt")),
        caller_quotas: None,
        allow_overrides: settings.allow_overrides && is_right("overrides"),
    };
    Policy::try_new(name, strategy, rest).ok()
}

fn is_in_flight(policy: &Policy) -> bool {
    matches!(policy.strategy(), Strategy::InFlight(_))
}

/// In place of a strategy that is wrong: one of its kind, as far as refusals depend on it.
fn stand_in(kind: &str) -> Strategy {
    let policy = if kind == IN_FLIGHT {
        Concurrency::new("unnamed", 1).policy()
    } else {
        Policy::gcra("unnamed", Quota::per_second(1))
    };
    *policy.strategy()
}

const IN_FLIGHT: &str = "in_flight";

/// The windows of a calendar.
#[cfg(feature = "calendar")]
fn windows(text: &str) -> Result<&'static WindowTable, String> {
    portcullis_calendar::windows(text).map_err(|error| error.to_string())
}

#[cfg(not(feature = "calendar"))]
fn windows(text: &str) -> Result<&'static WindowTable, String> {
    Err(format!(
        "{text:?}: this program is built without windows of calendars: enable the feature `calendar`"
    ))
}

/// The first one is of the strategy only where it limits requests in flight.
const STRATEGY: [&str; 10] =
    ["lease", "strategy", "quota", "limit", "period", "burst", "refill", "anchor", "slots", "windows"];
