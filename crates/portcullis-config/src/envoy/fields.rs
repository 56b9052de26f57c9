//! The fields of a file: where each belongs, and the types of their values.

use super::excerpt;
use super::findings::Findings;
use super::node::{Node, Value};
use super::scalar::Kind;
use crate::source::Span;

/// The maps of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Descriptor,
    RateLimit,
    Replaces,
}

use Place::{Descriptor, RateLimit, Replaces, Root};

/// All fields and where they belong. Envoy's service accepts each of them everywhere, and ignores it elsewhere.
const FIELDS: [(&str, &[Place]); 16] = [
    ("domain", &[Root]),
    ("descriptors", &[Root, Descriptor]),
    ("key", &[Descriptor]),
    ("value", &[Descriptor]),
    ("rate_limit", &[Descriptor]),
    ("shadow_mode", &[Descriptor]),
    ("quota_mode", &[Descriptor]),
    ("detailed_metric", &[Descriptor]),
    ("value_to_metric", &[Descriptor]),
    ("share_threshold", &[Descriptor]),
    ("metadata", &[Descriptor]),
    ("unit", &[RateLimit]),
    ("requests_per_unit", &[RateLimit]),
    ("unlimited", &[RateLimit]),
    ("replaces", &[RateLimit]),
    ("name", &[RateLimit, Replaces]),
];

impl Place {
    const fn describe(self) -> &'static str {
        match self {
            Root => "the top level of the file",
            Descriptor => "a descriptor",
            RateLimit => "`rate_limit`",
            Replaces => "an entry of `replaces`",
        }
    }
}

/// The name of a field if it has an effect in this place. Otherwise it reports why not.
pub(super) fn name_of(
    key: &Node,
    value: &Node,
    place: Place,
    path: &str,
    findings: &mut Findings,
) -> Option<&'static str> {
    let (name, places) = known(key, path, findings)?;
    if places.contains(&place) {
        return Some(name);
    }
    check_ignored(value, &join(path, name), name, findings);
    let homes: Vec<_> = places.iter().map(|home| home.describe()).collect();
    findings
        .warning(&join(path, name), key.span, format!("`{name}` has no effect in {}", place.describe()))
        .help(format!("it belongs in {}", homes.join(" or ")));
    None
}

/// Whether no field has this name.
pub(super) fn is_unknown(key: &Node) -> bool {
    !matches!(&key.value, Value::Scalar(name, _) if FIELDS.iter().any(|(field, _)| field == name))
}

/// The name of a known field.
fn known(key: &Node, path: &str, findings: &mut Findings) -> Option<(&'static str, &'static [Place])> {
    let Value::Scalar(name, Kind::Text) = &key.value else {
        let message = format!("the name of a field is not a text: {}", key.describe());
        findings.error(path, key.span, message).help("use the name of a field of Envoy's descriptors");
        return None;
    };
    if let Some(field) = FIELDS.iter().find(|(field, _)| field == name) {
        return Some(*field);
    }
    // The comparison takes a time that is proportional to the length of the name.
    let similar = FIELDS
        .iter()
        .filter(|_| name.len() <= 64)
        .map(|(field, _)| (strsim::jaro_winkler(field, name), *field));
    let help = match similar.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((likeness, field)) if likeness > 0.75 => format!("did you mean `{field}`?"),
        _ => "remove it, or use a field of Envoy's descriptors".to_owned(),
    };
    findings
        .error(&join(path, &excerpt(name)), key.span, format!("unknown field `{}`", excerpt(name)))
        .help(help);
    None
}

/// Checks a value that is ignored as far as Envoy's service does: the names of fields, the elements of lists, and numbers.
fn check_ignored(node: &Node, path: &str, name: &str, findings: &mut Findings) {
    if name == "metadata" {
        return;
    }
    match &node.value {
        Value::Scalar(_, Kind::OtherNumber) => refuse_number(node, path, findings),
        Value::Scalar(..) => {}
        Value::List(items) => {
            for item in items {
                if matches!(item.value, Value::Map(_)) {
                    check_ignored(item, path, name, findings);
                } else {
                    refuse_element(item, path, findings);
                }
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries {
                if let Some((name, _)) = known(key, path, findings) {
                    check_ignored(value, &join(path, name), name, findings);
                }
            }
        }
    }
}

/// The value of a field with a text. A number or a truth value is the text as it is written; nothing is the empty text.
pub(super) fn text(node: &Node, path: &str, findings: &mut Findings) -> Option<Spanned<String>> {
    match &node.value {
        Value::Scalar(_, Kind::Null) => Some(Spanned { value: String::new(), span: node.span }),
        Value::Scalar(_, Kind::OtherNumber) => {
            refuse_number(node, path, findings);
            None
        }
        Value::Scalar(text, _) => Some(Spanned { value: text.clone(), span: node.span }),
        Value::List(_) | Value::Map(_) => {
            findings
                .error(path, node.span, format!("expected a text, found {}", node.describe()))
                .help("write one text");
            None
        }
    }
}

/// The value of a field that is true or false.
pub(super) fn flag(node: &Node, path: &str, findings: &mut Findings) -> bool {
    match &node.value {
        Value::Scalar(_, Kind::Null) => false,
        Value::Scalar(_, Kind::Bool(value)) => *value,
        _ => {
            let message = format!("expected `true` or `false`, found {}", node.describe());
            findings.error(path, node.span, message).help("write `true` or `false`, without quotes");
            false
        }
    }
}

/// The number of requests of a limit.
pub(super) fn count(node: &Node, path: &str, findings: &mut Findings) -> Option<u32> {
    let number = match &node.value {
        Value::Scalar(_, Kind::Null) => return Some(0),
        Value::Scalar(text, Kind::Integer(value)) => {
            let octal = text
                .strip_prefix('0')
                .is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphabetic()));
            if octal && *value > 7 {
                let message = format!("`{}` is read as the number {value}", excerpt(text));
                findings
                    .warning(path, node.span, message)
                    .help("a number that begins with 0 is octal: write it in decimal");
            }
            u32::try_from(*value).ok()
        }
        _ => None,
    };
    if number.is_none() {
        let message = format!("expected a number of requests, found {}", node.describe());
        findings
            .error(path, node.span, message)
            .help("write a whole number from 0 to 4294967295, without quotes");
    }
    number
}

/// The elements of a list of maps. Nothing is the empty list.
pub(super) fn maps<'a>(node: &'a Node, path: &str, findings: &mut Findings) -> Vec<(usize, &'a Node)> {
    match &node.value {
        Value::Scalar(_, Kind::Null) => Vec::new(),
        Value::List(items) => {
            let mut maps = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                if matches!(item.value, Value::Map(_)) {
                    maps.push((index, item));
                } else {
                    refuse_element(item, &format!("{path}[{index}]"), findings);
                }
            }
            maps
        }
        _ => {
            let message = format!("expected a list, found {}", node.describe());
            findings.error(path, node.span, message).help("begin each element with `- `");
            Vec::new()
        }
    }
}

fn refuse_number(node: &Node, path: &str, findings: &mut Findings) {
    let message = format!("{} is not a whole number of 64 bits", node.describe());
    findings.error(path, node.span, message).help("put it in quotes if it is a text");
}

fn refuse_element(item: &Node, path: &str, findings: &mut Findings) {
    let message = format!("the list has an element that is not a map: {}", item.describe());
    findings.error(path, item.span, message).help("write each element as fields, such as `- key: user`");
}

/// The path of a field.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) span: Span,
}
