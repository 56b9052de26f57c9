//! A file as it is written: its domain and its descriptors, each field read and checked by itself.

use super::excerpt;
use super::fields::{self, Place, Spanned, join};
use super::findings::Findings;
use super::metadata::{self, Metadata};
use super::node::{Node, Value};
use super::rate_limit::{self, RateLimit};
use super::scalar::Kind;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::source::Span;

/// A file.
pub(super) struct Document {
    pub(super) domain: Option<Spanned<String>>,
    pub(super) descriptors: Vec<Descriptor>,
}

/// A descriptor as it is written.
pub(super) struct Descriptor {
    /// The path of the descriptor in the file, such as `descriptors[0]`.
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) key: Option<Spanned<String>>,
    pub(super) value: Option<Spanned<String>>,
    /// Whether there is a `rate_limit`, which may be wrong.
    pub(super) has_rate_limit: bool,
    pub(super) rate_limit: Option<RateLimit>,
    pub(super) descriptors: Vec<Descriptor>,
    pub(super) shadow_mode: Option<Span>,
    pub(super) quota_mode: Option<Span>,
    pub(super) detailed_metric: Option<Span>,
    pub(super) share_threshold: Option<Span>,
    pub(super) value_to_metric: bool,
    pub(super) metadata: Metadata,
}

/// Reads the document of a file.
pub(super) fn read(root: &Node, findings: &mut Findings) -> Document {
    let mut document = Document { domain: None, descriptors: Vec::new() };
    let mut listed = false;
    match &root.value {
        Value::Map(entries) => {
            if let Some(why) = kubernetes(entries) {
                findings.add(why);
                return document;
            }
            for (key, value) in entries {
                match fields::name_of(key, value, Place::Root, "", findings) {
                    Some("domain") => {
                        document.domain = fields::text(value, "domain", findings);
                        if document.domain.is_none() {
                            return document;
                        }
                    }
                    Some(_) => {
                        listed = matches!(&value.value, Value::List(items) if !items.is_empty());
                        document.descriptors = descriptors(value, "descriptors", 1, findings);
                    }
                    None => {}
                }
            }
        }
        Value::Scalar(_, Kind::Null) => {}
        _ => {
            let message = format!("expected the fields of a domain, found {}", root.describe());
            findings.error("", root.span, message).help("begin with `domain: name` and `descriptors:`");
            return document;
        }
    }
    if document.domain.as_ref().is_none_or(|domain| domain.value.is_empty()) {
        let span = document.domain.as_ref().map_or(root.span, |domain| domain.span);
        let span = Span { end: span.start, ..span };
        document.domain = None;
        findings
            .error("domain", span, "the file has no domain")
            .help("add `domain: name` at the top level of the file");
    } else if let Some(domain) = &document.domain {
        if !listed {
            let message = format!("the domain `{}` has no descriptors in this file", excerpt(&domain.value));
            findings.warning("descriptors", domain.span, message).help("nothing is limited: add descriptors");
        }
        if domain.value.contains('*') {
            let message = format!("`*` in the domain `{}` is taken literally", excerpt(&domain.value));
            findings
                .warning("domain", domain.span, message)
                .help("a domain has no wildcards: write its whole name");
        }
    }
    document
}

/// Why the file is an object of Kubernetes.
fn kubernetes(entries: &[(Node, Node)]) -> Option<Diagnostic> {
    let texts = entries.iter().filter_map(|(key, value)| Some((name(key)?, name(value)?, value.span)));
    kind::kubernetes(texts, entries.iter().filter_map(|(key, _)| name(key)))
}

fn name(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(text, Kind::Text) => Some(text),
        _ => None,
    }
}

fn descriptors(list: &Node, path: &str, depth: usize, findings: &mut Findings) -> Vec<Descriptor> {
    let maps = fields::maps(list, path, findings);
    if depth > super::MAX_DEPTH && !maps.is_empty() {
        let message = format!("descriptors are nested more than {} levels deep", super::MAX_DEPTH);
        findings.error(path, list.span, message).help("use fewer levels: clients send one entry for each");
        return Vec::new();
    }
    maps.into_iter()
        .map(|(index, node)| descriptor(node, format!("{path}[{index}]"), depth, findings))
        .collect()
}

fn descriptor(node: &Node, path: String, depth: usize, findings: &mut Findings) -> Descriptor {
    let mut read = Descriptor {
        path,
        span: node.span,
        key: None,
        value: None,
        has_rate_limit: false,
        rate_limit: None,
        descriptors: Vec::new(),
        shadow_mode: None,
        quota_mode: None,
        detailed_metric: None,
        share_threshold: None,
        value_to_metric: false,
        metadata: Metadata::new(),
    };
    let Value::Map(entries) = &node.value else {
        return read;
    };
    for (key, value) in entries {
        let Some(name) = fields::name_of(key, value, Place::Descriptor, &read.path, findings) else {
            // It may be a misspelt one.
            read.has_rate_limit |= fields::is_unknown(key);
            continue;
        };
        let path = join(&read.path, name);
        match name {
            "key" => read.key = fields::text(value, &path, findings),
            "value" => read.value = fields::text(value, &path, findings),
            "rate_limit" => {
                read.rate_limit = rate_limit::read(value, &path, findings);
                read.has_rate_limit = true;
            }
            "descriptors" => read.descriptors = descriptors(value, &path, depth + 1, findings),
            "shadow_mode" => read.shadow_mode = fields::flag(value, &path, findings).then_some(key.span),
            "quota_mode" => read.quota_mode = fields::flag(value, &path, findings).then_some(key.span),
            "detailed_metric" => {
                read.detailed_metric = fields::flag(value, &path, findings).then_some(key.span);
            }
            "share_threshold" => {
                read.share_threshold = fields::flag(value, &path, findings).then_some(key.span);
            }
            "value_to_metric" => read.value_to_metric = fields::flag(value, &path, findings),
            _ => read.metadata = metadata::read(value, &path, findings),
        }
    }
    let key_is_wrong =
        entries.iter().any(|(key, _)| matches!(&key.value, Value::Scalar(name, _) if name == "key"))
            && read.key.is_none();
    if !key_is_wrong && read.key.as_ref().is_none_or(|key| key.value.is_empty()) {
        let span = read.key.as_ref().map_or(node.span, |key| key.span);
        let span = Span { end: span.start, ..span };
        findings.error(&join(&read.path, "key"), span, "the descriptor has no key").help("add `key: name`");
        read.key = None;
    }
    if let Some(value) = read.value.take_if(|value| value.value.is_empty()) {
        let message = "an empty value is the same as none: the descriptor matches every value";
        findings
            .warning(&join(&read.path, "value"), value.span, message)
            .help("remove the field, or write a value");
    }
    read
}
