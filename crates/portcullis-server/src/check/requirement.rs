//! The rules that a check can apply.

use portcullis::LayerError;
use portcullis::rules::Rules;

/// Refuses rules with one that needs more than the head of a request.
pub(super) fn only_heads(rules: &Rules) -> Result<(), LayerError> {
    for rule in rules.iter() {
        if let Some(field) = rule.fields_beyond_head().first() {
            let (rule, reason) = (rule.table().to_owned(), reason(field));
            return Err(LayerError::Unusable { rule, reason });
        }
    }
    Ok(())
}

fn reason(field: &str) -> String {
    let (field, needs) = match field {
        "strategy" => ("strategy = \"in_flight\"", "the end of each request"),
        "in_flight" => (field, "the end of each request"),
        "key" => (field, "a route or an extension, which the program or its router adds to a request"),
        "tiers" => (field, "an extension, which the program adds to a request, unless `tier` names a header"),
        _ => (field, "the response to each request"),
    };
    format!("`{field}` needs {needs}, and a proxy that asks for a check shows only the head of the request")
}
