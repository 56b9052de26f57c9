//! `[policy.NAME]`: one rule, or two where it has a limit on requests in flight besides.

use portcullis_core::overrides::LockOut;
use portcullis_core::{Concurrency, FailureMode, Policy, PolicyError, PolicyName, Strategy, WindowTable};
use portcullis_tower::{Mode, OnAbort, OnMissing};

use super::super::build::scratch_registry;
use super::super::rule::{Rule, RuleOptions};
use super::Reader;
use crate::fields::{Fields, join};
use crate::tree::{Entry, Value};

/// What the two rules of a table share.
struct Shared {
    name: String,
    path: String,
    rule: Rule,
}

impl Reader<'_> {
    pub(super) fn policy(&self, entry: &Entry, path: &str) -> Vec<Rule> {
        let before = self.errors();
        let Some(mut fields) = Fields::of(&entry.node, path, self.findings) else { return Vec::new() };
        let rule = self.rule(&mut fields, entry);
        let rules = if let Some(rule) = rule {
            let shared = Shared { name: entry.name.clone(), path: path.to_owned(), rule };
            let in_flight = self.in_flight(&mut fields, &shared);
            std::iter::once(shared.rule).chain(in_flight).collect()
        } else {
            fields.node("in_flight");
            Vec::new()
        };
        fields.finish();
        // Rules of a table with mistakes would only cause more findings.
        if self.errors() == before { rules } else { Vec::new() }
    }

    fn errors(&self) -> usize {
        self.findings.errors()
    }

    fn rule(&self, fields: &mut Fields<'_>, entry: &Entry) -> Option<Rule> {
        let before = self.errors();
        let name = PolicyName::new(&entry.name);
        let name =
            name.map_err(|error| self.findings.error(fields.own_path(), entry.name_span, error.to_string()));
        let policy = self.plain_policy(fields, name.ok());
        let kind = fields.node("strategy").and_then(|node| match &node.value {
            Value::String(kind) => Some(kind.clone()),
            _ => None,
        });
        let mode = self.mode(fields).unwrap_or_default();
        if mode == Mode::Off {
            self.findings.warning(
                fields.path("mode"),
                fields.span_of("mode"),
                "the policy is off: it limits nothing",
            );
        }
        let key_node = fields.node("key");
        fields.required("key", key_node);
        let key = key_node.and_then(|node| self.key(node, &fields.path("key")));
        let except = self.request_list(fields, "except");
        let matcher = self.matcher(fields);
        let lock_out = self.lock_out(fields);
        let mut options = Self::options(fields);
        options.look_first = self.look_first(fields);
        options.cost = self.cost(fields);
        options.charge_when = self.charge_when(fields).map(std::sync::Arc::new);
        let policy = if let Some(policy) = policy {
            let (policy, quota) = self.tiers(fields, policy, kind.as_deref().unwrap_or_default());
            options.quota = quota;
            Some(policy)
        } else {
            for field in ["tiers", "tier", "caller_quotas", "quota_lookup"] {
                fields.node(field);
            }
            None
        };
        if options.on_missing == OnMissing::Shared {
            self.findings.warning(
                fields.path("on_missing"),
                fields.span_of("on_missing"),
                "all requests without an identity share one budget, so that one client can use it up for all of them",
            );
        }
        let key = key?;
        let source = key.source(&self.clients, self.hooks, except)?;
        let (policy, matcher) = policy.zip(matcher)?;
        let (table, span) = (entry.name.clone(), entry.name_span);
        let rule = Rule { policy, mode, lock_out, table, span, key, source, matcher, options };
        if self.errors() == before {
            self.try_out(&rule, |field| (fields.path(field), fields.span_of(field)), fields);
        }
        Some(rule)
    }

    /// The errors that builders return.
    fn try_out(&self, rule: &Rule, at: impl Fn(&str) -> (String, crate::source::Span), fields: &Fields<'_>) {
        if let Err((field, error)) = rule.add_to(None, &scratch_registry()) {
            let (path, span) =
                if fields.has(field) { at(field) } else { (fields.own_path().to_owned(), fields.span()) };
            self.findings.error(path, span, error.to_string());
        }
    }

    fn plain_policy(&self, fields: &mut Fields<'_>, name: Option<PolicyName>) -> Option<Policy> {
        let in_flight =
            fields.node("strategy").is_some_and(|node| node.value == Value::String("in_flight".to_owned()));
        let known: &[&'static str] =
            if in_flight { &STRATEGY } else { STRATEGY.get(1..).unwrap_or_default() };
        let strategy = fields.sub_with(known, |part| Strategy::deserialize_with_windows(part, windows));
        let lease: Option<u64> = if in_flight { None } else { fields.read("lease") };
        let failure: Option<FailureMode> = fields.read("on_store_failure");
        let wait = fields.duration("wait");
        let debt: Option<u64> = fields.read("debt");
        let grantable: Option<bool> = fields.read("grantable");
        let mut policy = Policy::new(name?, strategy?);
        let add = |field: &'static str,
                   policy: &mut Policy,
                   change: &dyn Fn(Policy) -> Result<Policy, PolicyError>| {
            match change(policy.clone()) {
                Ok(changed) => *policy = changed,
                Err(error) => {
                    self.findings.error(fields.path(field), fields.span_of(field), error.to_string());
                }
            }
        };
        if let Some(mode) = failure {
            add("on_store_failure", &mut policy, &|policy| policy.try_on_store_failure(mode));
        }
        if let Some(units) = lease {
            add("lease", &mut policy, &|policy| policy.try_lease(units));
        }
        if let Some(wait) = wait {
            add("wait", &mut policy, &|policy| policy.try_wait_at_most(wait));
        }
        if let Some(units) = debt {
            add("debt", &mut policy, &|policy| policy.try_allow_debt(units));
        }
        if grantable == Some(true) {
            add("grantable", &mut policy, &|policy| policy.try_with_overrides());
        }
        Some(policy)
    }

    fn options(fields: &mut Fields<'_>) -> RuleOptions {
        let on_missing =
            [("reject", OnMissing::Reject), ("shared", OnMissing::Shared), ("exempt", OnMissing::Exempt)];
        let on_abort =
            [("used", OnAbort::Used), ("nothing", OnAbort::Nothing), ("reservation", OnAbort::Reservation)];
        let mut flag = |field: &'static str| fields.read::<bool>(field).unwrap_or_default();
        let counts_rejections = flag("counts_rejections");
        let refund_unanswered = flag("refund_unanswered");
        let unlisted = flag("unlisted");
        RuleOptions {
            on_missing: fields.choice("on_missing", &on_missing).unwrap_or_default(),
            counts_rejections,
            reserve: fields.choice("reserve", &on_abort),
            look_first: None,
            refund_unanswered,
            until_headers: fields.choice("until", &UNTIL).unwrap_or_default(),
            unlisted,
            warn_at: fields.read("warn_at"),
            ..RuleOptions::default()
        }
    }

    fn lock_out(&self, fields: &mut Fields<'_>) -> Option<LockOut> {
        let node = fields.node("lock_out")?;
        let mut fields = Fields::of(node, fields.path("lock_out"), self.findings)?;
        let before = self.errors();
        let denials: Option<u32> = fields.read("after");
        fields.required("after", denials);
        let default = LockOut::after(1);
        let within = fields.duration("within").unwrap_or(default.within_time());
        let length = fields.duration("block_for").unwrap_or(default.length());
        let longest = fields.duration("up_to").unwrap_or(length);
        let (path, span) = (fields.own_path().to_owned(), fields.span());
        fields.finish();
        if self.errors() > before {
            return None;
        }
        let lock_out = LockOut::new(denials?, within, length, longest);
        lock_out.map_err(|error| self.findings.error(path, span, error.to_string())).ok()
    }

    /// A limit on requests in flight beside the policy: by the same key, for the same requests.
    fn in_flight(&self, fields: &mut Fields<'_>, shared: &Shared) -> Option<Rule> {
        let node = fields.node("in_flight")?;
        let path = join(&shared.path, "in_flight");
        let before = self.errors();
        let mut fields = Fields::of(node, path, self.findings)?;
        let limit: Option<u64> = fields.read("limit");
        fields.required("limit", limit);
        let lease = fields.duration("lease");
        let failure: Option<FailureMode> = fields.read("on_store_failure");
        let until_headers = fields.choice("until", &UNTIL).unwrap_or_default();
        let name = format!("{}.in_flight", shared.name);
        let at = |field: &str, error: PolicyError| {
            self.findings.error(fields.path(field), fields.span_of(field), error.to_string());
        };
        let concurrency = limit
            .and_then(|limit| Concurrency::try_new(&name, limit).map_err(|error| at("limit", error)).ok());
        let concurrency = concurrency.and_then(|concurrency| match lease {
            Some(lease) => concurrency.try_lease(lease).map_err(|error| at("lease", error)).ok(),
            None => Some(concurrency),
        });
        let policy = concurrency.map(Concurrency::policy).and_then(|policy| match failure {
            Some(mode) => {
                policy.try_on_store_failure(mode).map_err(|error| at("on_store_failure", error)).ok()
            }
            None => Some(policy),
        });
        if matches!(shared.rule.policy.strategy(), Strategy::InFlight(_)) {
            self.findings
                .error(fields.own_path(), fields.span(), "the policy limits requests in flight already")
                .help("leave out `in_flight`");
        }
        let Rule { mode, key, source, matcher, options, table, span, .. } = &shared.rule;
        let options = RuleOptions {
            on_missing: options.on_missing,
            counts_rejections: options.counts_rejections,
            unlisted: options.unlisted,
            until_headers,
            ..RuleOptions::default()
        };
        let rule = Rule {
            policy: policy?,
            mode: *mode,
            lock_out: None,
            table: table.clone(),
            span: *span,
            key: key.clone(),
            source: source.clone(),
            matcher: matcher.clone(),
            options,
        };
        if self.errors() == before {
            self.try_out(&rule, |field| (fields.path(field), fields.span_of(field)), &fields);
        }
        fields.finish();
        Some(rule)
    }
}

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

const UNTIL: [(&str, bool); 2] = [("body", false), ("headers", true)];
/// The first one is of the strategy only where it limits requests in flight.
const STRATEGY: [&str; 10] =
    ["lease", "strategy", "quota", "limit", "period", "burst", "refill", "anchor", "slots", "windows"];
