//! Answers of an admin API as tables.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use crate::calendar;
use crate::table::{Table, escaped};

/// A list of a snapshot.
pub(super) fn member(snapshot: Value, name: &str) -> anyhow::Result<Value> {
    let Value::Object(mut members) = snapshot else {
        bail!("the answer is no snapshot: is it the admin API?")
    };
    members
        .remove(name)
        .with_context(|| format!("the snapshot has no `{name}`: is the server of another version?"))
}

/// Removes the fingerprints that the server withholds, and returns why: one line takes the place of a column without values.
pub(super) fn take_withheld(answer: &mut Value) -> Option<String> {
    let members = answer.as_object_mut()?;
    let reasons = ["fingerprint_withheld", "fingerprints_withheld"].map(|name| members.remove(name));
    let why = escaped(reasons.iter().flatten().find_map(Value::as_str)?);
    remove_absent(answer, "fingerprint");
    Some(why)
}

fn remove_absent(value: &mut Value, name: &str) {
    match value {
        Value::Object(members) => {
            if members.get(name).is_some_and(Value::is_null) {
                members.remove(name);
            }
            members.values_mut().for_each(|member| remove_absent(member, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_absent(item, name)),
        _ => {}
    }
}

/// An answer of any form: values with their names, then lists as tables. A member of a member has both names.
pub(super) fn answer(answer: &Value) -> String {
    let mut out = String::new();
    let mut values = Vec::new();
    let mut lists = Vec::new();
    collect("", answer, &mut values, &mut lists);
    let width = values.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in values {
        let _ =
            if name.is_empty() { writeln!(out, "{value}") } else { writeln!(out, "{name:width$}  {value}") };
    }
    for (name, rows) in lists {
        if !name.is_empty() {
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}{name}");
        }
        table(rows, &mut out);
    }
    if out.is_empty() { "done\n".to_owned() } else { out }
}

type Values = Vec<(String, String)>;
type Lists<'a> = Vec<(String, &'a [Value])>;

fn collect<'a>(name: &str, value: &'a Value, values: &mut Values, lists: &mut Lists<'a>) {
    match value {
        Value::Object(members) => {
            for member in order(members.keys()) {
                let inner =
                    if name.is_empty() { escaped(member) } else { format!("{name}.{}", escaped(member)) };
                collect(&inner, &members[member], values, lists);
            }
        }
        Value::Array(rows) if rows.is_empty() || rows.iter().any(Value::is_object) => {
            lists.push((name.to_owned(), rows));
        }
        Value::Null if name.is_empty() => {}
        _ => {
            let last = name.rsplit('.').next().unwrap_or(name);
            values.push((name.to_owned(), escaped(&cell(last, value))));
        }
    }
}

fn table(rows: &[Value], out: &mut String) {
    if rows.is_empty() {
        out.push_str("none\n");
        return;
    }
    let objects: Vec<&Map<String, Value>> = rows.iter().filter_map(Value::as_object).collect();
    let mut names: Vec<&String> = Vec::new();
    for name in objects.iter().flat_map(|object| object.keys()) {
        if !names.contains(&name) && names.len() < MAX_COLUMNS {
            names.push(name);
        }
    }
    let names = order(names.into_iter());
    let mut table = Table::new(&names.iter().map(|name| name.as_str()).collect::<Vec<_>>());
    for object in objects {
        table.row(
            names.iter().map(|&name| object.get(name).map_or_else(String::new, |value| cell(name, value))),
        );
    }
    table.write(out);
}

/// A value in one line.
fn cell(name: &str, value: &Value) -> String {
    match (name, value) {
        (_, Value::Null) => "-".to_owned(),
        (_, Value::String(text)) => text.clone(),
        ("time" | "until" | "registered_since" | "tried_out_since", Value::Number(millis))
            if millis.is_u64() =>
        {
            // Later than a calendar has years for, no date is of use.
            let seconds = millis.as_u64().unwrap_or_default() / 1_000;
            if seconds < MAX_SECONDS { calendar::text(seconds) } else { millis.to_string() }
        }
        (_, Value::Array(items)) => items.iter().map(|item| cell("", item)).collect::<Vec<_>>().join(", "),
        (_, Value::Object(members)) => {
            let members = order(members.keys()).into_iter().map(|name| cell(name, &members[name]));
            members.collect::<Vec<_>>().join(" ")
        }
        _ => value.to_string(),
    }
}

/// Known names in the order in which they are read, and others after them.
fn order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| ORDER.split(' ').position(|known| known == *name).unwrap_or(ORDER.len()));
    names
}

const ORDER: &str = "action time generation name policy route routes fingerprint strategy mode key layers counted \
    registered_since tried_out_since reason requests admitted rejected would_reject exempt \
    charged_units error until locked_out limit remaining value unit policies store limited_now top \
    recent";

const MAX_COLUMNS: usize = 32;

/// The year 9999.
const MAX_SECONDS: u64 = 253_402_300_800;

#[cfg(test)]
mod tests;
