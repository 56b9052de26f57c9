//! What the builders of layers refuse.

use portcullis_tower::LayerError;

use super::super::build::{BuildError, scratch_registry};
use super::super::rule::Rule;
use super::Reader;
use crate::fields::Fields;

impl Reader<'_> {
    /// Reports all errors that builders return for a rule of this table. Those that follow from another error are left out.
    pub(super) fn try_out(&self, rule: &Rule, fields: &Fields<'_>) {
        // What depends on a field that is wrong cannot be known.
        let is_known = |field: &str| !self.findings.has_error_in(&fields.path(field));
        let needs_strategy = fields.has("strategy") && is_known("strategy");
        for ((field, error), depends_on) in rule.refusals(&scratch_registry()) {
            let is_certain = depends_on.iter().all(|other| match *other {
                "strategy" => needs_strategy,
                other => is_known(other),
            });
            if !is_certain || !field.is_empty() && !is_known(field) {
                continue;
            }
            let (path, span) = if fields.has(field) {
                (fields.path(field), fields.span_of(field))
            } else {
                (fields.own_path().to_owned(), fields.span())
            };
            let lacks: &[&str] = match error {
                BuildError::Layer(LayerError::QuotasNotDeclared { .. }) => &["caller_quotas"],
                _ => &[],
            };
            let (message, help) = in_a_file(&error);
            fields.missing_at(lacks, path, span, message).maybe_help(help);
        }
    }
}

/// What a builder's error says where there is a file in place of code, and how to mend it if it does not say so.
fn in_a_file(error: &BuildError) -> (String, Option<&'static str>) {
    let BuildError::Layer(layer_error) = error else { return (error.to_string(), None) };
    let help = match layer_error {
        LayerError::QuotasNotDeclared { .. } => {
            let message = "the policy declares no quotas of callers, so each would be refused".to_owned();
            return (message, Some("add the smallest and the largest: caller_quotas = [\"1/s\", \"100/s\"]"));
        }
        LayerError::NotInFlight { .. } => "leave it out, or write strategy = \"in_flight\"",
        LayerError::CorrectsInFlight { .. } | LayerError::LocksOutInFlight { .. } => {
            "leave it out, or write it in another policy"
        }
        LayerError::TwoLookups { .. } => "leave it out",
        _ => return (error.to_string(), None),
    };
    (error.to_string(), Some(help))
}
