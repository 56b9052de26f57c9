//! Reads TOML.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::Context;
use crate::source::{Format, Span};
use crate::text::quoted;
use crate::tree::{Entry, Node, Value};

/// The most mistakes of syntax that are reported. Later ones often follow from earlier ones.
const MAX_ERRORS: usize = 20;

pub(super) fn read(context: &Context<'_>) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(context.text);
    // A name that is given twice leaves the rest of the file readable.
    let readable = errors.iter().all(|error| error.message().starts_with("duplicate key"));
    report(context, &errors);
    let entries = readable.then(|| map(context, table.get_ref(), 1))?;
    Some(Node::new(context.span(0, context.text.len()), Value::Map(entries)))
}

fn report(context: &Context<'_>, errors: &[toml::de::Error]) {
    let mut last_line = None;
    let mut table_twice: Option<usize> = None;
    let mut reported = 0;
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    let mut errors: Vec<_> = errors.iter().collect();
    errors.sort_by_key(|error| start(error));
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = context.text.get(..span.start).map(|before| before.matches('\n').count());
        // The first mistake on a line is the cause of the others.
        if line.is_some() && line == last_line {
            continue;
        }
        last_line = line;
        // The fields of a table that is given twice are given twice.
        let between = |header| context.text.get(header..span.start).unwrap_or_default();
        if table_twice.is_some_and(|header| !between(header).contains("\n[")) {
            continue;
        }
        let place = context.span(span.start, span.end);
        let written = context.slice(place);
        let (message, help) = explain(error.message(), written, context.rest(place.end));
        if help == Some(TWICE) {
            let line = context.text.get(..span.start).unwrap_or_default().rsplit('\n').next();
            table_twice = line.is_some_and(|line| line.starts_with('[')).then_some(span.start);
            context.findings.error("", place, format!("{} is given twice", quoted(written))).help(TWICE);
        } else {
            context.syntax(Format::Toml, place, message).maybe_help(help);
        }
        reported += 1;
        // Behind an open list everything is a mistake.
        if reported == MAX_ERRORS || help == Some(OPEN_LIST) {
            break;
        }
    }
}

const TWICE: &str = "remove one of the two";
const OPEN_LIST: &str = "close the list with ]";

/// The parser's message, and how to mend it. `written` is what stands at the place, `rest` what comes behind it.
fn explain<'a>(message: &'a str, written: &str, rest: &str) -> (&'a str, Option<&'static str>) {
    let is_blank = written.trim().is_empty()
        && rest.trim_start_matches([' ', '\t']).starts_with(['\r', '\n'])
        || written.contains('\n')
        || written.is_empty() && rest.is_empty();
    if message.starts_with("duplicate key") {
        (message, Some(TWICE))
    } else if message.starts_with("missing comma between array elements") {
        ("a list is not closed, or a comma is missing", Some(OPEN_LIST))
    } else if message.starts_with("string values must be quoted") {
        if is_blank {
            ("a value is missing", None)
        } else {
            ("a text without quotes", Some("put it in quotes"))
        }
    } else {
        (message, None)
    }
}

fn node(context: &Context<'_>, value: &Spanned<DeValue<'_>>, depth: usize) -> Node {
    let span = value.span();
    let span = context.span(span.start, span.end);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => integer_value(context, integer, span),
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => {
            let message = format!("{date} is a date, which no rule has");
            context.findings.error("", span, message).help("put a text in quotes");
            Value::String(date.to_string())
        }
        DeValue::Array(_) | DeValue::Table(_) if !context.is_shallow(depth, span) => Value::Null,
        DeValue::Array(list) => Value::List(list.iter().map(|one| node(context, one, depth + 1)).collect()),
        DeValue::Table(table) => Value::Map(map(context, table, depth + 1)),
    };
    Node::new(span, value)
}

fn map(context: &Context<'_>, table: &DeTable<'_>, depth: usize) -> Vec<Entry> {
    let entries = table.iter().map(|(name, value)| {
        let span = name.span();
        Entry {
            name: name.get_ref().to_string(),
            name_span: context.span(span.start, span.end),
            node: node(context, value, depth),
        }
    });
    let mut entries: Vec<_> = entries.collect();
    // The parser sorts them by name.
    entries.sort_by_key(|entry| entry.name_span.start);
    entries
}

fn integer_value(context: &Context<'_>, integer: &DeInteger<'_>, span: Span) -> Value {
    let Ok(number) = i128::from_str_radix(integer.as_str(), integer.radix()) else {
        context.findings.error("", span, format!("{integer} is not a number of 128 bits"));
        return Value::Integer(0);
    };
    Value::Integer(number)
}
