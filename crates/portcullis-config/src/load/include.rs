//! The field `include`.

use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::MAX_FILES;
use crate::findings::Findings;
use crate::source::Span;
use crate::tree::{Node, Value};

const FIELD: &str = "include";

/// A path or a pattern, and its place.
#[derive(Debug)]
pub(super) struct Include {
    pub(super) pattern: String,
    pub(super) field: String,
    pub(super) span: Span,
}

/// Takes the field out of a document.
pub(super) fn take(document: &mut Node, findings: &Findings) -> Vec<Include> {
    let Value::Map(entries) = &mut document.value else { return Vec::new() };
    let Some(at) = entries.iter().position(|entry| entry.name == FIELD) else { return Vec::new() };
    let node = entries.remove(at).node;
    match node.value {
        Value::List(list) => {
            let each = list.into_iter().enumerate();
            each.filter_map(|(index, one)| text(one, format!("{FIELD}[{index}]"), findings)).collect()
        }
        _ => text(node, FIELD.to_owned(), findings).into_iter().collect(),
    }
}

fn text(node: Node, field: String, findings: &Findings) -> Option<Include> {
    match node.value {
        Value::String(pattern) if !pattern.is_empty() => Some(Include { pattern, field, span: node.span }),
        Value::String(_) => {
            findings.error(field, node.span, "an empty path");
            None
        }
        other => {
            findings
                .error(field, node.span, format!("expected paths of files, not {}", other.kind()))
                .help("include = [\"limits.d/*.toml\"]");
            None
        }
    }
}

/// What an include means.
pub(super) enum Meaning {
    File(PathBuf),
    Pattern { folder: PathBuf, files: Vec<PathBuf> },
}

impl Include {
    /// The files of this include, sorted, relative to the file that names them. `None` after a finding.
    pub(super) fn meaning(&self, included_by: &Path, findings: &Findings) -> Option<Meaning> {
        let parent = included_by.parent().unwrap_or(Path::new(""));
        if !self.pattern.contains(['*', '?', '[']) {
            return Some(Meaning::File(parent.join(&self.pattern)));
        }
        if self.pattern.contains("**") {
            let message = format!("{:?} looks into folders of any depth", self.pattern);
            findings.error(&*self.field, self.span, message).help("name the folders: \"limits.d/*/*.toml\"");
            return None;
        }
        // Characters of the folder itself are no pattern.
        let pattern = match parent.to_str() {
            Some("") => self.pattern.clone(),
            Some(parent) if Path::new(&self.pattern).is_relative() => {
                format!("{}/{}", Pattern::escape(parent), self.pattern)
            }
            Some(_) => self.pattern.clone(),
            None => {
                let message = format!("patterns need a folder whose name is UTF-8, not {}", parent.display());
                findings.error(&*self.field, self.span, message);
                return None;
            }
        };
        let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
        let paths = match glob::glob_with(&pattern, options) {
            Ok(paths) => paths,
            Err(error) => {
                let message = format!("invalid pattern {:?}: {}", self.pattern, error.msg);
                findings.error(&*self.field, self.span, message);
                return None;
            }
        };
        let mut files = Vec::new();
        for path in paths.take(MAX_FILES + 1) {
            match path {
                Ok(path) if path.is_dir() => {}
                Ok(path) => files.push(path),
                Err(error) => {
                    findings.error(&*self.field, self.span, error.to_string());
                }
            }
        }
        files.sort();
        let literal = Path::new(&self.pattern).parent().unwrap_or(Path::new(""));
        let literal = literal
            .components()
            .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']));
        Some(Meaning::Pattern { folder: parent.join(literal.collect::<PathBuf>()), files })
    }
}
