//! Words of messages: values as they are shown, lists of names, the nearest name.

use crate::text::{SHOWN, quoted};
use crate::tree::{Node, Value};

/// The name that is nearest to a misspelt one, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long name is no misspelling, and comparing takes time that grows with its length.
    if name.len() > 2 * SHOWN {
        return None;
    }
    let lower = name.to_lowercase().replace('-', "_");
    let distances = known.into_iter().map(|one| (strsim::damerau_levenshtein(&lower, one), one));
    let (distance, one) = distances.min_by_key(|(distance, _)| *distance)?;
    let is_longer_form =
        one.len() > 3 && lower.starts_with(one) || lower.len() > 3 && one.starts_with(&lower);
    (distance <= 1.max(one.len() / 3) || is_longer_form).then_some(one)
}

/// How to mend a misspelt name.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|name| format!("did you mean \"{name}\"?"))
}

/// A value, for "expected a table, not ...".
pub(super) fn described(node: &Node) -> String {
    let kind = node.value.kind();
    match &node.value {
        Value::String(text) => format!("{kind}: {}", quoted(text)),
        Value::Bool(value) => value.to_string(),
        Value::Integer(number) => format!("{kind}: {number}"),
        Value::Float(number) => format!("{kind}: {number}"),
        Value::Null | Value::List(_) | Value::Map(_) => kind.to_owned(),
    }
}

/// `"a", "b" or "c"`
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    join(names.into_iter().map(|name| format!("\"{name}\"")).collect(), "or")
}

/// The fields that a table may have, for a help.
pub(super) fn list_of_fields(names: &[&str]) -> String {
    match names {
        [] => "remove it: there are no fields here".to_owned(),
        [only] => format!("the only field is `{only}`"),
        _ => {
            format!("the fields are {}", join(names.iter().map(|name| format!("`{name}`")).collect(), "and"))
        }
    }
}

fn join(mut names: Vec<String>, last_word: &str) -> String {
    let Some(last) = names.pop() else { return String::new() };
    if names.is_empty() { last } else { format!("{} {last_word} {last}", names.join(", ")) }
}
