//! Collects what is wrong with the files.

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::Span;

/// The mistakes and warnings of a load, at most [`Findings::MAX`].
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Diagnostic>,
    dropped: usize,
}

/// A finding, which is added with how to mend it.
#[must_use = "it is added with its help"]
pub(super) struct Finding<'a> {
    findings: &'a mut Findings,
    found: Diagnostic,
}

impl Finding<'_> {
    pub(super) fn help(self, help: impl Into<String>) {
        self.findings.add(self.found.help(help));
    }
}

impl Findings {
    /// The highest number of findings. Further ones are only counted.
    pub(super) const MAX: usize = 500;

    pub(super) fn error(&mut self, field: &str, span: Span, message: impl Into<String>) -> Finding<'_> {
        Finding { findings: self, found: Diagnostic::error(field, span, message) }
    }

    pub(super) fn warning(&mut self, field: &str, span: Span, message: impl Into<String>) -> Finding<'_> {
        Finding { findings: self, found: Diagnostic::warning(field, span, message) }
    }

    /// Adds a finding. If there are too many, an error takes the place of a warning.
    pub(super) fn add(&mut self, finding: Diagnostic) {
        if self.list.len() < Self::MAX {
            self.list.push(finding);
            return;
        }
        self.dropped += 1;
        if finding.severity == Severity::Error
            && let Some(warning) = self.list.iter_mut().rfind(|one| one.severity != Severity::Error)
        {
            *warning = finding;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<Diagnostic> {
        if self.dropped > 0 {
            let message = format!("{} further findings are not listed", self.dropped);
            self.list.push(Diagnostic::without_place(Severity::Warning, message));
        }
        self.list
    }
}

/// A mistake that has no place in a file.
pub(super) fn without_place(message: String, help: &str) -> Diagnostic {
    Diagnostic::without_place(Severity::Error, message).help(help)
}
