//! What is wrong with rules that are valid one by one.

use portcullis_tower::Mode;

use super::build::{LayerOptions, scratch_registry};
use super::matcher::Condition;
use super::rule::Rule;
use crate::fields::{Findings, join};
use crate::source::Span;

/// Policies with an identity that clients choose freely need another policy beside them.
pub(super) fn unverified_keys(rules: &[Rule], findings: &Findings) {
    for (index, rule) in rules.iter().enumerate() {
        let is_first_of_table = index
            .checked_sub(1)
            .is_none_or(|before| rules.get(before).is_none_or(|before| before.table() != rule.table()));
        if !matches!(rule.mode, Mode::Enforce) || !rule.key.is_chosen_by_client() || !is_first_of_table {
            continue;
        }
        let path = join(&join("policy", rule.table()), "key");
        let message = format!(
            "nothing verifies the key ({}): a client may send another one with each request",
            rule.key
        );
        let is_beside = |other: &Rule| {
            other.mode == Mode::Enforce
                && other.key.is_address()
                && other.options.charge_when.is_none()
                && other.matcher.covers(&rule.matcher)
        };
        if rules.iter().any(is_beside) {
            findings
                .warning(path, rule.span, message)
                .help("such a client meets only the policies by address beside this one: see that they are strict enough");
        } else if rule.key.falls_back_to_address() {
            findings
                .warning(path, rule.span, message)
                .help("such a client is not limited: add a policy with key = \"client_ip\" beside it");
        } else {
            findings
                .error(path, rule.span, format!("{message}, and no policy by address is beside it"))
                .help("such a client is not limited: add an enforced policy with key = \"client_ip\" and a `match` that includes that of this one");
        }
    }
}

/// Lists that deny apply only where a rule does.
pub(super) fn options(rules: &[Rule], options: &LayerOptions, span: Option<Span>, findings: &Findings) {
    let Some(span) = span else { return };
    let everything = |rule: &Rule| rule.matcher.any.contains(&Condition::default());
    if !options.deny.is_empty() && !rules.iter().any(everything) {
        findings
            .warning("layer.deny", span, "requests that no policy matches are not denied")
            .help("add a policy without `match`");
    }
}

/// The options of the layer that its builder refuses, with each rule alone.
pub(super) fn try_out(rules: &[Rule], options: &LayerOptions, span: Option<Span>, findings: &Findings) {
    let Some(span) = span else { return };
    for rule in rules {
        let layer = rule.add_to(None, &scratch_registry());
        if let Err((field, error)) = layer.and_then(|layer| options.apply(layer)) {
            findings.error(join("layer", field), span, error.to_string());
            return;
        }
    }
}
