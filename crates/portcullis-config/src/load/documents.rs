//! Reads a file and what it includes.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::include::{self, Include, Meaning};
use super::parse::parse;
use super::walk::Walk;
use super::{MAX_FILE, MAX_FILES, MAX_INCLUDES, open};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::Findings;
use crate::kind;
use crate::source::{FileId, Format, Sources, Span};
use crate::tree::Node;

/// The documents so far.
pub(super) struct Documents<'a> {
    pub(super) sources: Sources,
    pub(super) nodes: Vec<Node>,
    pub(super) files: Vec<PathBuf>,
    pub(super) folders: Vec<PathBuf>,
    environment: &'a Environment,
    findings: &'a Findings,
    opened: Vec<Opened>,
    /// The number of paths that were tried.
    tried: usize,
    walk: Walk,
}

/// A file that was opened.
struct Opened {
    /// Without links and `..`.
    canonical: PathBuf,
    /// The place that includes it. The first file has none.
    included_at: Option<Span>,
    /// Whether its includes are being read.
    is_current: bool,
}

impl<'a> Documents<'a> {
    pub(super) fn new(environment: &'a Environment, findings: &'a Findings) -> Self {
        Self {
            sources: Sources::default(),
            nodes: Vec::new(),
            files: Vec::new(),
            folders: Vec::new(),
            environment,
            findings,
            opened: Vec::new(),
            tried: 0,
            walk: Walk::default(),
        }
    }

    pub(super) fn read_text(&mut self, name: &Path, format: Format, text: &str) {
        if text.len() > MAX_FILE {
            self.error(None, format!("{} cannot be read: it has more than 1 MiB", name.display()));
            return;
        }
        let file = self.sources.add(name, text.to_owned());
        for include in self.document(format, text, file) {
            let message = "a text that is no file cannot include files".to_owned();
            self.error(Some(&include), message);
        }
    }

    /// Reads a file, and what it includes. The first one is included by none.
    pub(super) fn read_file(&mut self, path: &Path, include: Option<&Include>) {
        self.tried += 1;
        if self.tried > MAX_INCLUDES {
            // Once, because the message would repeat for each further include.
            if self.tried == MAX_INCLUDES + 1 {
                let message = format!("more than {MAX_INCLUDES} includes");
                self.error(include, message).help("join files, or name them by a pattern");
            }
            return;
        }
        if !self.files.iter().any(|known| known == path) {
            self.files.push(path.to_owned());
        }
        let Some(format) = Format::of_path(path) else {
            let message = format!("{}: the end of the name gives no format", path.display());
            self.error(include, message).help("name it .toml, .yaml, .yml or .json");
            return;
        };
        let canonical = match path.canonicalize() {
            Ok(canonical) => canonical,
            Err(error) => return self.unreadable(path, include, &error.to_string()),
        };
        if let Some(first) = self.opened.iter().find(|opened| opened.canonical == canonical) {
            let message = self.included_twice(path, first);
            self.error(include, message);
            return;
        }
        if self.opened.len() == MAX_FILES {
            self.error(include, format!("more than {MAX_FILES} files"));
            return;
        }
        let bytes = match open::read(path) {
            Ok(bytes) => bytes,
            Err(error) => return self.unreadable(path, include, &error.reason()),
        };
        let index = self.opened.len();
        let included_at = include.map(|include| include.span);
        self.opened.push(Opened { canonical, included_at, is_current: true });
        match String::from_utf8(bytes) {
            Ok(text) => {
                let file = self.sources.add(path, text.clone());
                for include in self.document(format, &text, file) {
                    self.include(path, &include);
                }
            }
            Err(error) => {
                let start = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let span = Span { file: self.sources.add(path, text), start, end: start + 3 };
                self.findings.error("", span, "a byte that is not UTF-8").help("save the file as UTF-8");
            }
        }
        self.opened[index].is_current = false;
    }

    /// Reads one document, and returns what it includes.
    fn document(&mut self, format: Format, text: &str, file: FileId) -> Vec<Include> {
        let Some(mut node) = parse(format, text, file, self.findings) else { return Vec::new() };
        if let Some(why) = kind::not_rules(&node) {
            self.findings.add(why);
            return Vec::new();
        }
        let variables = self.environment.resolve(&mut node, text, self.findings);
        self.sources.variables.extend(variables);
        let includes = include::take(&mut node, self.findings);
        self.nodes.push(node);
        includes
    }

    fn include(&mut self, included_by: &Path, include: &Include) {
        match include.meaning(included_by, &mut self.walk, self.findings) {
            Some(Meaning::File(path)) => self.read_file(&path, Some(include)),
            Some(Meaning::Pattern { folder, files }) => {
                if files.is_empty() {
                    let message = format!("no file matches {:?} in {}", include.pattern, shown(&folder));
                    self.findings.warning(&*include.field, include.span, message);
                }
                if !self.folders.contains(&folder) {
                    self.folders.push(folder);
                }
                for file in files {
                    if self.opened.len() == MAX_FILES {
                        self.error(Some(include), format!("more than {MAX_FILES} files"));
                        return;
                    }
                    self.read_file(&file, Some(include));
                }
            }
            None => {}
        }
    }

    /// What is wrong with an include of a file that was opened before.
    fn included_twice(&self, path: &Path, first: &Opened) -> String {
        let path = path.display();
        let place = first.included_at.map(|span| self.sources.location(span).to_string());
        match (first.is_current, place) {
            (true, None) => format!("{path} includes itself: it is the file that was loaded"),
            (true, Some(place)) => format!("{path} includes itself: it is being read because of {place}"),
            (false, None) => format!("{path} is included, and it is the file that was loaded"),
            (false, Some(place)) => format!("{path} is included twice, first at {place}"),
        }
    }

    fn unreadable(&self, path: &Path, include: Option<&Include>, reason: &str) {
        self.error(include, format!("{} cannot be read: {reason}", path.display()));
    }

    /// Adds an error at an include, or without a place for the first file.
    fn error(&self, include: Option<&Include>, message: String) -> crate::findings::Finding<'a> {
        self.findings.add(match include {
            Some(include) => Diagnostic::error(&*include.field, include.span, message),
            None => Diagnostic::without_place(Severity::Error, message),
        })
    }
}

fn shown(folder: &Path) -> std::path::Display<'_> {
    if folder.as_os_str().is_empty() { Path::new(".").display() } else { folder.display() }
}
