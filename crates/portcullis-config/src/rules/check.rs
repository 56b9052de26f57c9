//! What is wrong with rules that are valid one by one.

use portcullis_tower::{LayerOptionError, Mode, RateLimitLayer};

use super::key::Key;
use super::matcher::covers::Comparisons;
use super::matcher::{Condition, Matcher};
use super::options::LayerOptions;
use super::rule::Rule;
use crate::diagnostic::Diagnostic;
use crate::fields::{Findings, join};
use crate::source::Span;
use crate::tree::Node;

/// Policies with an identity that clients choose freely need another policy beside them: by address, or by the part of it that they do not choose.
///
/// With other errors among the findings, only what is certain is one.
pub(super) fn unverified_keys(rules: &[Rule], findings: &Findings) {
    let Some(mut identities) = Identities::of(rules, findings) else { return };
    for rule in enforced(rules).filter(|rule| rule.key.is_chosen_by_client()) {
        let table = join("policy", rule.table());
        if ["mode", "match"].iter().any(|field| findings.has_error_in(&join(&table, field))) {
            continue;
        }
        let (path, span) = (join(&table, "key"), rule.key_span);
        let (verified, unverified) = (verified_parts(&rule.key), unverified_parts(&rule.key));
        let message = format!(
            "nothing verifies {unverified} ({}): a client may send another one with each request",
            rule.key
        );
        let bounds = |other: &Rule| {
            other.key.is_address()
                || other.key.identity().is_some_and(|identity| rule.key.is_bounded_by(identity))
        };
        let Some(has_beside) = identities.cover(rule, &rule.matcher, bounds) else {
            findings
                .error(path, span, "the conditions of the policies are too many to find one by address beside this key")
                .help("shorten the lists in `match`, or add a policy with key = \"client_ip\" and without `match`");
            return;
        };
        if has_beside && findings.has_errors() {
            // The neighbouring policy is invalid; once fixed it may not be by address.
            continue;
        }
        if has_beside {
            let help = format!(
                "such a client meets only the policies by address{verified} beside this one: see that they are strict enough"
            );
            findings.add(Diagnostic::note(path, span, message).help(help));
        } else if rule.key.falls_back_to_address() {
            findings
                .warning(path, span, message)
                .help("such a client is not limited: add a policy with key = \"client_ip\" beside it");
        } else {
            let (why, help) = identities.why_not(rule, bounds).unwrap_or_default();
            let error = findings.error(
                path,
                span,
                format!("{message}, and no policy by address{verified} is beside it{why}"),
            );
            let help = if help.is_empty() { add_one(&verified) } else { help };
            error.help(format!("such a client is not limited: {help}"));
        }
    }
}

/// The parts of a key that are verified and no address, as alternatives to a policy by address.
fn verified_parts(key: &Key) -> String {
    let parts = key.parts().into_iter().filter(|part| part.identity().is_some() && !part.is_address());
    parts.map(|part| format!(" or by {part} alone")).collect::<Vec<_>>().concat()
}

/// The parts of a key that a client chooses, or all of it.
fn unverified_parts(key: &Key) -> String {
    let (chosen, others): (Vec<_>, Vec<_>) =
        key.parts().into_iter().partition(|part| part.is_chosen_by_client());
    if others.is_empty() {
        return "the key".to_owned();
    }
    let chosen: Vec<_> = chosen.into_iter().map(ToString::to_string).collect();
    format!("{} in the key", chosen.join(" and "))
}

/// A condition that a client writes may add a limit or raise a cost. Where it takes one away, a policy by address without such a condition has to
/// be beside it.
pub(super) fn written_conditions(rules: &[Rule], findings: &Findings) {
    let Some(mut identities) = Identities::of(rules, findings) else { return };
    for rule in enforced(rules) {
        let of_match = rule
            .matcher
            .written()
            .next()
            .map(|_| (join(&join("policy", rule.table()), "match"), rule.match_span));
        if of_match.is_none() && rule.relaxed.is_empty() {
            continue;
        }
        let is_strict = |other: &Rule| {
            other.key.is_address() && other.matcher.written().next().is_none() && other.relaxed.is_empty()
        };
        match identities.cover(rule, &rule.matcher.without_written(), is_strict) {
            Some(false) => {}
            Some(true) => continue,
            None => {
                findings
                    .error("policy", rule.span, "the conditions of the policies are too many to find one by address beside this one")
                    .help("shorten the lists in `match`, or add a policy with key = \"client_ip\" and without `match`");
                return;
            }
        }
        let left = rule.matcher.written().find(|value| value.is_left_by_writing());
        for (path, span) in left.and(of_match.clone()).iter().chain(&rule.relaxed) {
            let what = left.map_or_else(
                || "the header or parameter".to_owned(),
                |value| format!("{}.{}", value.written.field, value.written.name),
            );
            findings
                .error(path.as_str(), *span, format!("a client that writes {what} is limited less, and no policy by address without such a condition is beside it"))
                .help("add an enforced policy with key = \"client_ip\" and a `match` that includes these requests, or name a header that a proxy overwrites: trusted = true");
        }
        if let (None, Some((path, span))) = (left, of_match) {
            let names: Vec<_> = rule.matcher.written().map(ToString::to_string).collect();
            findings
                .warning(path, span, format!("a client that does not write {} is not limited by this policy, nor by one by address", names.join(", ")))
                .help("add a policy with key = \"client_ip\" and a `match` that includes these requests");
        }
    }
}

/// The enforced rules, one of each table.
fn enforced(rules: &[Rule]) -> impl Iterator<Item = &Rule> {
    let before = std::iter::once(None).chain(rules.iter().map(Some));
    let first = rules
        .iter()
        .zip(before)
        .filter(|(rule, before)| before.is_none_or(|before| before.table() != rule.table()));
    first.map(|(rule, _)| rule).filter(|rule| matches!(rule.mode, Mode::Enforce))
}

fn add_one(verified: &str) -> String {
    format!(
        "add an enforced policy with key = \"client_ip\"{verified} and a `match` that includes that of this one"
    )
}

/// The policies by an address or a verified identity, those for all requests first, which are compared at once.
struct Identities<'r> {
    rules: Vec<&'r Rule>,
    comparisons: Comparisons,
}

impl<'r> Identities<'r> {
    /// `None` if a policy could not be read, which may be one of them.
    fn of(rules: &'r [Rule], findings: &Findings) -> Option<Self> {
        if !findings.errors_are_all(|field| is_of_a_rule(field, rules)) {
            return None;
        }
        let identities = rules.iter().filter(|rule| rule.key.identity().is_some());
        let (mut all, narrower): (Vec<_>, Vec<_>) = identities.partition(|rule| is_everything(rule));
        all.extend(narrower);
        Some(Self { rules: all, comparisons: Comparisons::at_most(MAX_COMPARISONS) })
    }

    /// Whether one of those of which this holds limits all requests of a matcher, and charges at least the responses that the rule charges.
    /// `None` if that takes too many comparisons.
    fn cover(&mut self, rule: &Rule, matcher: &Matcher, holds: impl Fn(&Rule) -> bool) -> Option<bool> {
        let counts =
            |other: &Rule| other.mode == Mode::Enforce && charges_as_much(other, rule) && holds(other);
        for other in self.rules.iter().filter(|other| counts(other)) {
            if other.matcher.covers(matcher, &mut self.comparisons)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Why those of which this holds do not count beside a rule, by the one that lacks the least, and what to do.
    fn why_not(&mut self, rule: &Rule, holds: impl Fn(&Rule) -> bool) -> Option<(String, String)> {
        let (mut found, mut elsewhere) = (None, None);
        let others = self.rules.iter().filter(|other| other.table() != rule.table() && holds(other));
        for other in others {
            if other.matcher.covers(&rule.matcher, &mut self.comparisons)? {
                found = Some(*other);
                break;
            }
            elsewhere = elsewhere.or(Some(*other));
        }
        let name = found.or(elsewhere)?.name();
        let (why, help) = match found {
            Some(other) if other.mode != Mode::Enforce => {
                ("it is not enforced", format!("enforce policy {name}: mode = \"enforce\""))
            }
            Some(_) => (
                "its `charge_when` leaves out responses that this one charges",
                format!(
                    "let the `charge_when` of policy {name} name all responses of this one, or remove it there"
                ),
            ),
            None => (
                "its `match` leaves out requests of this one",
                format!(
                    "let the `match` of policy {name} include that of this one, or add an enforced policy with key = \"client_ip\" that does"
                ),
            ),
        };
        Some((format!(": policy {name} does not count, because {why}"), help))
    }
}

/// Whether a rule charges each response that the other one charges.
fn charges_as_much(rule: &Rule, other: &Rule) -> bool {
    match (&rule.charge_when, &other.charge_when) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(other)) => own.includes(other),
    }
}

/// Whether a field is one of `[layer]` or `[client_ip]`, or of a table that is among the rules.
fn is_of_a_rule(field: &str, rules: &[Rule]) -> bool {
    let is_in = |table: &str| {
        field.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    is_in("layer") || is_in("client_ip") || rules.iter().any(|rule| is_in(&join("policy", rule.table())))
}

fn is_everything(rule: &Rule) -> bool {
    rule.matcher.any.contains(&Condition::default())
}

/// The most comparisons of conditions, methods and hosts. Half a thousand policies by client, each with a policy by address and a few
/// hosts, need half of them.
const MAX_COMPARISONS: usize = 10_000_000;

/// A file without policies can be used, and limits nothing.
pub(super) fn no_policies(rules: &[Rule], documents: &[Node], findings: &Findings) {
    let Some(document) = documents.first().filter(|_| rules.is_empty()) else { return };
    let start = Span { end: document.span.start, ..document.span };
    findings
        .warning("policy", start, "there are no policies: nothing is limited")
        .help("add a policy, such as [policy.search]");
}

/// The options of the layer that are invalid.
pub(super) fn layer_options(options: &LayerOptions, table: Option<&Node>, findings: &Findings) {
    let Some(table) = table else { return };
    let spread = options.spread_retries.filter(|spread| *spread > RateLimitLayer::MAX_RETRY_SPREAD);
    if let Some(spread) = spread {
        let (field, error) = ("spread_retries", LayerOptionError::RetrySpread { spread });
        findings.error(join("layer", field), table.span_of(field), error.to_string());
    }
}
