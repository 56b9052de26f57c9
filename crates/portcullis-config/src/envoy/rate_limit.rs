//! The limit of a descriptor as it is written.

use super::excerpt;
use super::fields::{self, Place, Spanned, join};
use super::findings::Findings;
use super::limit::Unit;
use super::node::{Node, Value};
use super::scalar::Kind;
use crate::source::Span;

/// A `rate_limit` as it is written, if it is valid.
pub(super) struct RateLimit {
    pub(super) requests_per_unit: u32,
    /// `None` if it is unlimited.
    pub(super) unit: Option<Unit>,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<Spanned<String>>,
}

/// Reads the field `rate_limit`. `None` if it is wrong or empty.
pub(super) fn read(node: &Node, path: &str, findings: &mut Findings) -> Option<RateLimit> {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Scalar(_, Kind::Null) => {
            let message = "an empty `rate_limit` is the same as none: the descriptor does not limit";
            findings
                .warning(path, node.span, message)
                .help("add `unit` and `requests_per_unit`, or `unlimited: true`");
            return None;
        }
        _ => {
            let message = format!("expected the fields of a limit, found {}", node.describe());
            findings
                .error(path, node.span, message)
                .help("add `unit` and `requests_per_unit` in lines of their own");
            return None;
        }
    };
    let (mut requests, mut unit, mut unlimited, mut name, mut replaces) =
        (None, None, false, None, Vec::new());
    for (key, value) in entries {
        let Some(field) = fields::name_of(key, value, Place::RateLimit, path, findings) else {
            continue;
        };
        let path = join(path, field);
        match field {
            "requests_per_unit" => {
                let count = fields::count(value, &path, findings);
                let given = !matches!(value.value, Value::Scalar(_, Kind::Null));
                requests = given.then(|| Spanned { value: count.unwrap_or(0), span: value.span });
            }
            "unit" => unit = Some(fields::text(value, &path, findings)),
            "unlimited" => unlimited = fields::flag(value, &path, findings),
            "name" => {
                name = fields::text(value, &path, findings).filter(|name| !name.value.is_empty());
            }
            _ => replaces = replacements(value, &path, findings),
        }
    }
    for replaced in &replaces {
        if name.as_ref().is_some_and(|name| name.value == replaced.value) {
            let message = format!("the limit `{}` replaces itself", excerpt(&replaced.value));
            findings
                .error(&join(path, "replaces"), replaced.span, message)
                .help("name another limit, or remove the entry");
        }
    }
    let name = name.map(|name| name.value);
    if unlimited {
        check_unlimited(requests.as_ref(), unit.flatten().as_ref(), path, findings);
        return Some(RateLimit { requests_per_unit: 0, unit: None, name, replaces });
    }
    let span = Span { end: node.span.start, ..node.span };
    let written = match unit {
        Some(unit) => unit?,
        None => Spanned { value: String::new(), span },
    };
    let Some(unit) = Unit::from_name(&written.value) else {
        let units = Unit::ALL.map(Unit::as_str).join(", ");
        let message = if written.value.is_empty() {
            "the limit has no unit".to_owned()
        } else {
            format!("invalid unit `{}`", excerpt(&written.value))
        };
        findings.error(&join(path, "unit"), written.span, message).help(format!("use one of: {units}"));
        return None;
    };
    if requests.is_none() {
        let message = "without `requests_per_unit` the limit is 0: every request is denied";
        findings.warning(&join(path, "requests_per_unit"), span, message).help("add `requests_per_unit`");
    }
    let requests_per_unit = requests.map_or(0, |requests| requests.value);
    Some(RateLimit { requests_per_unit, unit: Some(unit), name, replaces })
}

fn replacements(list: &Node, path: &str, findings: &mut Findings) -> Vec<Spanned<String>> {
    let mut names = Vec::new();
    for (index, node) in fields::maps(list, path, findings) {
        let path = format!("{path}[{index}]");
        let mut name = Some(Spanned { value: String::new(), span: node.span });
        if let Value::Map(entries) = &node.value {
            for (key, value) in entries {
                if fields::name_of(key, value, Place::Replaces, &path, findings).is_some() {
                    name = fields::text(value, &join(&path, "name"), findings);
                }
            }
        }
        match name {
            Some(name) if name.value.is_empty() => {
                let message = "an entry of `replaces` has no name";
                findings
                    .error(&join(&path, "name"), name.span, message)
                    .help("write `- name: other_limit`, or remove it");
            }
            Some(name) => names.push(name),
            None => {}
        }
    }
    names
}

/// Warns about the fields that an unlimited `rate_limit` ignores. A valid unit is a mistake.
fn check_unlimited(
    requests: Option<&Spanned<u32>>,
    unit: Option<&Spanned<String>>,
    path: &str,
    findings: &mut Findings,
) {
    if let Some(unit) = unit {
        let field = join(path, "unit");
        let help = "remove it, or remove `unlimited`";
        if Unit::from_name(&unit.value).is_some() {
            let message = format!("an unlimited `rate_limit` has no unit, but this one has `{}`", unit.value);
            findings.error(&field, unit.span, message).help(help);
        } else if !unit.value.is_empty() {
            let message =
                format!("the unit `{}` is ignored, because the limit is unlimited", excerpt(&unit.value));
            findings.warning(&field, unit.span, message).help(help);
        }
    }
    if let Some(requests) = requests {
        let message =
            format!("{} requests per unit are ignored, because the limit is unlimited", requests.value);
        findings
            .warning(&join(path, "requests_per_unit"), requests.span, message)
            .help("nothing is limited: remove `unlimited`, or this field");
    }
}
