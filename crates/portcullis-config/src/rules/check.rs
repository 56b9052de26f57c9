//! What is wrong with rules that are valid one by one.

use portcullis_tower::{LayerError, LayerOptionError, Mode, RateLimitLayer};

use super::matcher::Condition;
use super::matcher::covers::Comparisons;
use super::options::LayerOptions;
use super::rule::Rule;
use crate::fields::{Findings, join};
use crate::source::Span;
use crate::tree::Node;

/// Policies with an identity that clients choose freely need another policy beside them.
///
/// With other errors among the findings, only what is certain is one.
pub(super) fn unverified_keys(rules: &[Rule], findings: &Findings) {
    // A policy that could not be read may be the one beside.
    if !findings.errors_are_all(|field| is_of_a_rule(field, rules)) {
        return;
    }
    let addresses = rules
        .iter()
        .filter(|rule| rule.mode == Mode::Enforce && rule.key.is_address() && !rule.charges_by_outcome);
    // Those for all requests first, which are compared at once.
    let (mut beside, narrower): (Vec<_>, Vec<_>) = addresses.partition(|rule| is_everything(rule));
    beside.extend(narrower);
    let mut comparisons = Comparisons::at_most(MAX_COMPARISONS);
    for (index, rule) in rules.iter().enumerate() {
        let is_first_of_table = index
            .checked_sub(1)
            .is_none_or(|before| rules.get(before).is_none_or(|before| before.table() != rule.table()));
        if !matches!(rule.mode, Mode::Enforce) || !rule.key.is_chosen_by_client() || !is_first_of_table {
            continue;
        }
        let table = join("policy", rule.table());
        if ["mode", "match"].iter().any(|field| findings.has_error_in(&join(&table, field))) {
            continue;
        }
        let (path, span) = (join(&table, "key"), rule.key_span);
        let message = format!(
            "nothing verifies the key ({}): a client may send another one with each request",
            rule.key
        );
        let mut covering = beside.iter().map(|other| other.matcher.covers(&rule.matcher, &mut comparisons));
        let Some(has_beside) = covering.find(|covers| *covers != Some(false)).unwrap_or(Some(false)) else {
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
            findings
                .warning(path, span, message)
                .help("such a client meets only the policies by address beside this one: see that they are strict enough");
        } else if rule.key.falls_back_to_address() {
            findings
                .warning(path, span, message)
                .help("such a client is not limited: add a policy with key = \"client_ip\" beside it");
        } else {
            findings
                .error(path, span, format!("{message}, and no policy by address is beside it"))
                .help("such a client is not limited: add an enforced policy with key = \"client_ip\" and a `match` that includes that of this one");
        }
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

/// The options of the layer that are invalid, or that a rule does not allow. Each is reported once.
pub(super) fn layer_options(
    rules: &[Rule],
    options: &LayerOptions,
    table: Option<&Node>,
    findings: &Findings,
) {
    let Some(table) = table else { return };
    let spread = options.spread_retries.filter(|spread| *spread > RateLimitLayer::MAX_RETRY_SPREAD);
    let spread = spread.map(|spread| LayerOptionError::RetrySpread { spread }.into());
    let charged = rules.iter().find(|rule| rule.limit.needs_charge()).filter(|_| options.without_charge);
    let charged = charged.map(|rule| LayerError::NeedsCharge { policy: rule.name().clone() });
    for (field, error) in [("spread_retries", spread), ("without_charge", charged)] {
        if let Some(error) = error {
            findings.error(join("layer", field), table.span_of(field), error.to_string());
        }
    }
}
