//! Replaces `${NAME}` in texts.

use std::cell::RefCell;
use std::sync::Arc;

use super::MAX_FILE;
use crate::findings::Findings;
use crate::source::{Span, Variable};
use crate::text::quoted;
use crate::tree::{Node, Value};

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where environment variables are looked up.
#[derive(Clone)]
pub(super) enum Environment {
    Process,
    Lookup(Arc<Lookup>),
    None,
}

impl Environment {
    fn get(&self, name: &str) -> Option<String> {
        match self {
            Self::Process => std::env::var_os(name).and_then(|value| value.into_string().ok()),
            Self::Lookup(lookup) => lookup(name),
            Self::None => None,
        }
    }

    /// Replaces the references in all values of a document, and returns by what. `text` is the text of its file.
    pub(super) fn resolve(&self, node: &mut Node, text: &str, findings: &Findings) -> Vec<Variable> {
        if matches!(self, Self::None) {
            return Vec::new();
        }
        let resolver = Resolver { environment: self, text, findings, variables: RefCell::default() };
        let mut room = MAX_FILE;
        resolver.node(node, "", &mut room);
        resolver.variables.into_inner()
    }
}

struct Resolver<'a> {
    environment: &'a Environment,
    text: &'a str,
    findings: &'a Findings,
    variables: RefCell<Vec<Variable>>,
}

/// A part of a text.
enum Part<'a> {
    Literal(&'a str),
    /// The reference as it is written, the name and the default.
    Reference(&'a str, &'a str, Option<&'a str>),
    Bad(&'a str),
}

impl Resolver<'_> {
    fn node(&self, node: &mut Node, path: &str, room: &mut usize) {
        match &mut node.value {
            Value::Map(entries) => {
                for entry in entries {
                    let path = join(path, &entry.name);
                    self.node(&mut entry.node, &path, room);
                }
            }
            Value::List(list) => {
                for (index, one) in list.iter_mut().enumerate() {
                    self.node(one, &format!("{path}[{index}]"), room);
                }
            }
            Value::String(text) if text.contains("${") => {
                let parts = parts(text);
                let whole = matches!(parts[..], [Part::Reference(..)]);
                let Some(resolved) = self.text(&parts, path, node.span, room) else { return };
                node.value = Value::String(resolved);
                node.from_environment = whole;
            }
            _ => {}
        }
    }

    /// The text with its references replaced. `None` after a finding.
    fn text(&self, parts: &[Part<'_>], path: &str, span: Span, room: &mut usize) -> Option<String> {
        let mut resolved = Some(String::new());
        for part in parts {
            let next = match part {
                Part::Literal(text) => Some((*text).to_owned()),
                Part::Reference(written, name, default) => {
                    self.reference(written, name, *default, path, span)
                }
                Part::Bad(written) => {
                    let message = format!("{} is no reference to an environment variable", quoted(written));
                    self.findings
                        .error(path, self.place(span, written), message)
                        .help("write ${NAME} or ${NAME:-default}, and $${ for a literal ${");
                    None
                }
            };
            match (next, &mut resolved) {
                (Some(next), Some(resolved)) if next.len() <= *room => {
                    *room -= next.len();
                    resolved.push_str(&next);
                }
                (Some(_), Some(_)) => {
                    self.findings.error(path, span, "the texts with their variables have more than 1 MiB");
                    return None;
                }
                _ => resolved = None,
            }
        }
        resolved
    }

    fn reference(
        &self,
        written: &str,
        name: &str,
        default: Option<&str>,
        path: &str,
        span: Span,
    ) -> Option<String> {
        let value = self.environment.get(name);
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty() && default != Some(value)) {
            let variable = Variable { span, name: name.to_owned(), value: value.clone() };
            self.variables.borrow_mut().push(variable);
        }
        match default {
            Some(default) => {
                Some(value.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned()))
            }
            None if value.is_none() => {
                let message = format!("the environment variable {name} is not set");
                let help = format!("set it, or give a default: ${{{name}:-default}}");
                self.findings.error(path, self.place(span, written), message).help(help);
                None
            }
            None => value,
        }
    }

    /// The place of a part of a value. Escapes may hide it, then it is the place of the value.
    fn place(&self, span: Span, written: &str) -> Span {
        let found = self.text.get(span.start..span.end).and_then(|text| text.find(written));
        found.map_or(span, |at| Span { start: span.start + at, end: span.start + at + written.len(), ..span })
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            parts.extend([Part::Literal(before), Part::Literal("${")]);
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            parts.push(Part::Literal(&rest[..at]));
        }
        let Some(length) = rest[at..].find('}') else {
            parts.push(Part::Bad(&rest[at..]));
            return parts;
        };
        let written = &rest[at..=at + length];
        let inner = &written[2..length];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
        parts.push(if is_name { Part::Reference(written, name, default) } else { Part::Bad(written) });
        rest = &rest[at + length + 1..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    parts
}
