//! The field `include`.

use std::path::{Path, PathBuf};

use super::MAX_ENTRIES;
use super::walk::{Walk, WalkError, is_pattern};
use crate::findings::Findings;
use crate::source::Span;
use crate::tree::{Entry, Node, Value};

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
    let Some(Entry { node, .. }) = document.take(FIELD) else { return Vec::new() };
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
    pub(super) fn meaning(
        &self,
        included_by: &Path,
        walk: &mut Walk,
        findings: &Findings,
    ) -> Option<Meaning> {
        let parent = included_by.parent().unwrap_or(Path::new(""));
        if !is_pattern(&self.pattern) {
            return Some(Meaning::File(parent.join(&self.pattern)));
        }
        let error = |message: String| findings.error(&*self.field, self.span, message);
        if self.pattern.contains("**") {
            error(format!("{:?} looks into folders of any depth", self.pattern))
                .help("name the folders: \"limits.d/*/*.toml\"");
            return None;
        }
        match walk.files(parent, &self.pattern) {
            Ok(files) => {
                let names = Path::new(&self.pattern).parent().unwrap_or(Path::new("")).components();
                let literal = names.take_while(|part| !is_pattern(&part.as_os_str().to_string_lossy()));
                return Some(Meaning::Pattern { folder: parent.join(literal.collect::<PathBuf>()), files });
            }
            Err(WalkError::Pattern(reason)) => {
                error(format!("invalid pattern {:?}: {}", self.pattern, reason.msg));
            }
            Err(WalkError::Folder(folder, reason)) => {
                error(format!("{} cannot be read: {reason}", folder.display()));
            }
            Err(WalkError::TooMany) => {
                let message =
                    format!("the folders of {:?} have more than {MAX_ENTRIES} entries", self.pattern);
                error(message).help("keep the files of rules in a folder of their own");
            }
        }
        None
    }
}
