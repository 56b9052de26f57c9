//! What is wrong with the options of a policy together.

use portcullis_tower::{LayerError, Limit};

use super::Reader;
use crate::fields::Fields;
use crate::tree::Value;

impl Reader<'_> {
    /// Reports everything that is wrong with a limit of this table, at the fields that cause it. What follows from another error is left
    /// out.
    pub(super) fn refuse(&self, limit: &Limit, fields: &Fields<'_>) {
        // What depends on a field that is wrong cannot be known.
        let is_known = |field: &str| !self.findings.has_error_in(&fields.path(field));
        for error in limit.mistakes() {
            let (at, depends_on) = fields_of(&error);
            let is_certain = depends_on
                .iter()
                .all(|other| is_known(other) && (*other != "strategy" || fields.has("strategy")));
            let is_set = |field: &&&str| {
                is_known(field) && fields.node(field).is_some_and(|node| node.value != Value::Bool(false))
            };
            for field in at.iter().filter(|_| is_certain).filter(is_set) {
                let lacks: &[&str] = match error {
                    LayerError::QuotasNotDeclared { .. } => &["caller_quotas"],
                    LayerError::ReadsWithoutReservation { .. } => &["reserve"],
                    _ => &[],
                };
                let (message, help) = in_a_file(&error);
                let (path, span) = (fields.path(field), fields.span_of(field));
                fields.missing_at(lacks, path, span, message).maybe_help(help);
            }
        }
    }
}

/// The fields that cause an error, and those on which it depends besides.
fn fields_of(error: &LayerError) -> (&'static [&'static str], &'static [&'static str]) {
    match error {
        LayerError::CorrectsInFlight { .. } => {
            (&["reserve", "charge_when", "charge_after", "refund_unanswered"], &["strategy"])
        }
        LayerError::ReservesAndLooks { .. } => (&["charge_after"], &["strategy", "reserve"]),
        LayerError::ReadsWithoutReservation { .. } => (&["usage"], &["reserve"]),
        LayerError::TwoLookups { .. } => (&["quota_lookup"], &["strategy", "caller_quotas"]),
        LayerError::QuotasNotDeclared { .. } => (&["tiers", "quota_lookup"], &["strategy", "caller_quotas"]),
        LayerError::NotInFlight { .. } => (&["until"], &["strategy"]),
        LayerError::UnverifiedKey { .. } => (&["mode"], &[]),
        LayerError::Option(_) => (&["warn_at"], &[]),
        _ => (&["lock_out"], &["strategy"]),
    }
}

/// What an error says where there is a file in place of code, and how to mend it if it does not say so.
fn in_a_file(error: &LayerError) -> (String, Option<&'static str>) {
    let help = match error {
        LayerError::QuotasNotDeclared { .. } => {
            let message = "the policy declares no quotas of callers, so each would be refused".to_owned();
            return (message, Some("add the smallest and the largest: caller_quotas = [\"1/s\", \"100/s\"]"));
        }
        LayerError::ReadsWithoutReservation { .. } => {
            let message = "the policy reserves nothing that could be settled to the usage".to_owned();
            return (message, Some("add reserve = \"used\", and as `cost` what a response usually takes"));
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
