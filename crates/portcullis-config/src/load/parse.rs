//! Reads a text of any format into a tree.

mod read_json;
mod read_toml;
mod read_yaml;

use std::cell::Cell;
use std::thread;

use super::MAX_DEPTH;
use crate::diagnostic::Severity;
use crate::findings::{Finding, Findings};
use crate::kind;
use crate::source::{FileId, Format, Span};
use crate::text::quoted;
use crate::tree::{Entry, Node, Value};

/// The stack of the thread that parses. Parsers recurse and bound the depth only roughly, so that a caller's stack may be too small.
const STACK: usize = 64 << 20;

/// Reads a text. `None` after a mistake of syntax.
///
/// A document without content is an empty table.
pub(super) fn parse(format: Format, text: &str, file: FileId, findings: &Findings) -> Option<Node> {
    let parsed = on_own_stack(|| {
        let findings = Findings::default();
        let node = read(format, text, file, &findings);
        (node, findings.into_list())
    });
    let Some((node, list)) = parsed else {
        let message = format!("the parser of {} failed on this file", name(format));
        findings.error("", Span { file, start: 0, end: 0 }, message);
        return None;
    };
    let has_errors = list.iter().any(|one| one.severity == Severity::Error);
    if let Some(template) = has_errors.then(|| kind::template(file, text)).flatten() {
        findings.add(template);
        return None;
    }
    for finding in list {
        findings.add(finding);
    }
    node
}

/// Runs a parser in a thread with a large stack. `None` if it panics, which ends its thread only.
pub(crate) fn on_own_stack<T: Send>(parser: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("portcullis-config".to_owned()).stack_size(STACK);
        thread.spawn_scoped(scope, parser).ok()?.join().ok()
    })
}

fn read(format: Format, text: &str, file: FileId, findings: &Findings) -> Option<Node> {
    // A byte order mark is no content. The places count it.
    let base = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let context = Context { text: &text[base..], base, file, findings, was_deep: Cell::new(false) };
    let node = match format {
        Format::Toml => read_toml::read(&context),
        Format::Yaml => read_yaml::read(&context),
        Format::Json => read_json::read(&context),
    }?;
    match node.value {
        Value::Null => Some(Node { value: Value::Map(Vec::new()), ..node }),
        Value::Map(_) => Some(node),
        other => {
            findings.error(
                "",
                node.span,
                format!("a file of rules is a table, and this is {}", other.kind()),
            );
            None
        }
    }
}

pub(super) const fn name(format: Format) -> &'static str {
    match format {
        Format::Toml => "TOML",
        Format::Yaml => "YAML",
        Format::Json => "JSON",
    }
}

/// What the readers of the formats share.
pub(super) struct Context<'a> {
    /// Without a byte order mark.
    pub(super) text: &'a str,
    /// The bytes in front of the text.
    base: usize,
    pub(super) file: FileId,
    pub(super) findings: &'a Findings,
    was_deep: Cell<bool>,
}

impl Context<'_> {
    /// The place of a range of the text, within its bounds, widened to whole characters.
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        let mut start = start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = end.clamp(start, self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        Span { file: self.file, start: self.base + start, end: self.base + end }
    }

    /// The text at a place.
    pub(super) fn slice(&self, span: Span) -> &str {
        self.text.get(span.start - self.base..span.end - self.base).unwrap_or_default()
    }

    /// The text from the end of a place.
    pub(super) fn rest(&self, end: usize) -> &str {
        self.text.get(end - self.base..).unwrap_or_default()
    }

    /// Adds a mistake of syntax.
    pub(super) fn syntax(&self, format: Format, span: Span, message: &str) -> Finding<'_> {
        self.findings.error("", span, format!("invalid {}: {message}", name(format)))
    }

    /// Whether a list or a table at this depth is allowed. The first that is not is a finding.
    pub(super) fn is_shallow(&self, depth: usize, span: Span) -> bool {
        let is_shallow = depth < MAX_DEPTH;
        if !is_shallow && !self.was_deep.replace(true) {
            self.findings.error(
                "",
                span,
                format!("more than {MAX_DEPTH} lists and tables inside each other"),
            );
        }
        is_shallow
    }

    /// Line and column of a place, for another finding.
    pub(super) fn line_and_column(&self, span: Span) -> String {
        let before = self.text.get(..span.start.saturating_sub(self.base)).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        format!("line {line}, column {column}")
    }

    /// Adds an entry, unless there is one of its name.
    pub(super) fn insert(&self, entries: &mut Entries, entry: Entry) {
        if let Some(first) = entries.names.get(&entry.name) {
            let mut message = format!("{} is given twice", quoted(&entry.name));
            // Each place is looked for from the beginning of the text.
            if !self.findings.is_full() {
                message = format!("{message}, first at {}", self.line_and_column(*first));
            }
            self.findings.error("", entry.name_span, message).help("remove one of the two");
            return;
        }
        entries.names.insert(entry.name.clone(), entry.name_span);
        entries.list.push(entry);
    }
}

/// The entries of a table so far.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    names: std::collections::HashMap<String, Span>,
}
