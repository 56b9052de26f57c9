//! What a file is: rules, Envoy's descriptors, or neither.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::tree::Node;

/// Whether descriptors of Envoy have a field at their top, which rules do not have.
pub(crate) fn is_field_of_envoy(name: &str) -> bool {
    matches!(name, "domain" | "descriptors")
}

/// Why a document is none of rules.
pub(crate) fn not_rules(root: &Node) -> Option<Diagnostic> {
    let entries = root.entries();
    let texts =
        entries.iter().filter_map(|entry| Some((entry.name.as_str(), entry.node.text()?, entry.node.span)));
    let names = entries.iter().map(|entry| entry.name.as_str());
    if let Some(found) = kubernetes(texts, names.clone()) {
        return Some(found);
    }
    let field = entries.iter().find(|entry| is_field_of_envoy(&entry.name))?;
    if names.clone().any(|name| name == "policy") {
        return None;
    }
    let message = "these are descriptors of Envoy's rate limit service, where rules are expected";
    let help = "only `portcullis serve` and `portcullis check` read them: write rules with `[policy.NAME]`";
    Some(Diagnostic::error("", field.name_span, message).help(help))
}

/// Why a document is an object of Kubernetes, by its fields that are texts and the names of all.
pub(crate) fn kubernetes<'a>(
    texts: impl IntoIterator<Item = (&'a str, &'a str, Span)>,
    mut names: impl Iterator<Item = &'a str>,
) -> Option<Diagnostic> {
    let (_, kind, span) = texts.into_iter().find(|(name, ..)| *name == "kind")?;
    names.find(|name| matches!(*name, "apiVersion" | "data"))?;
    let kind = crate::text::one_line(kind.to_owned());
    let message =
        format!("this is an object of Kubernetes, a {kind}, and not the file that limits are read from");
    let help = "write the text that is below its `data` into a file of its own, or give the path at which a pod mounts it";
    Some(Diagnostic::error("kind", span, message).help(help))
}

/// Why a text with a mistake cannot be parsed, if it is a template.
pub(crate) fn template(file: FileId, text: &str) -> Option<Diagnostic> {
    let Range { start, end } = placeholder(text)?;
    let written = crate::text::quoted(&text[start..end]);
    let message = format!("this is a template: {written} is not filled in");
    let help = "fill it in first, such as by `helm template`, and give the file that results";
    Some(Diagnostic::error("", Span { file, start, end }, message).help(help))
}

/// The first `{{ .. }}` of a line that is neither in quotes nor in a comment.
fn placeholder(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let found = line.find("{{").and_then(|open| Some((open, open + line[open..].find("}}")? + 2)));
        if let Some((open, end)) = found {
            let before = &line[..open];
            let is_quoted = ['"', '\''].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
            if !is_quoted && !before.contains('#') {
                return Some(start + open..start + end);
            }
        }
        start += line.len();
    }
    None
}
