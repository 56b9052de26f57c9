//! Collects what is wrong while files are read.

use std::cell::RefCell;

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::Span;
use crate::text::one_line;

/// The most findings of a load. A file can have hundreds of thousands.
const MAX: usize = 100;

/// The findings so far, at most 100. Shared by reference among all readers of a load.
#[derive(Debug, Default)]
pub(crate) struct Findings(RefCell<Vec<Diagnostic>>);

/// A finding that was just added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding<'a> {
    findings: &'a Findings,
    index: usize,
}

impl Findings {
    /// Continues a list.
    pub(crate) fn new(list: Vec<Diagnostic>) -> Self {
        Self(RefCell::new(list))
    }

    /// Adds an error at a place. `field` is a path such as `policy.search.quota`, or empty for a whole file.
    pub(crate) fn error(
        &self,
        field: impl Into<String>,
        span: Span,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.add(Diagnostic::error(field, span, message))
    }

    /// Adds a warning at a place.
    pub(crate) fn warning(
        &self,
        field: impl Into<String>,
        span: Span,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.add(Diagnostic::warning(field, span, message))
    }

    /// Adds a finding.
    pub(crate) fn add(&self, mut finding: Diagnostic) -> Finding<'_> {
        finding.field = one_line(finding.field);
        finding.message = one_line(finding.message);
        finding.help = finding.help.map(one_line);
        let mut list = self.0.borrow_mut();
        // A value with a mistake inside, such as a variable that is not set, has no meaning that could be wrong.
        if list.iter().any(|known| known.severity == Severity::Error && is_inside(known, &finding)) {
            return self.none();
        }
        if list.len() < MAX {
            list.push(finding);
            return Finding { findings: self, index: list.len() - 1 };
        }
        // The last one stands for all others, and is an error if one of them is.
        if let Some(last) = list.last_mut() {
            let severity = last.severity.max(finding.severity);
            let message = "there are more findings, which are listed when these are mended";
            *last = Diagnostic::without_place(severity, message);
        }
        self.none()
    }

    /// What is no finding of its own, because another one says it.
    pub(crate) const fn none(&self) -> Finding<'_> {
        Finding { findings: self, index: MAX }
    }

    /// Whether all errors are about fields of which this holds.
    pub(crate) fn errors_are_all(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.borrow().iter().filter(|one| one.severity == Severity::Error).all(|one| holds(&one.field))
    }

    /// Whether there is an error about a field or a part of it.
    pub(crate) fn has_error_in(&self, field: &str) -> bool {
        let is_in = |one: &Diagnostic| {
            one.field.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.borrow().iter().any(|one| one.severity == Severity::Error && is_in(one))
    }

    /// Whether there is an error about exactly this place.
    pub(crate) fn has_error_at(&self, span: Span) -> bool {
        self.0.borrow().iter().any(|one| one.severity == Severity::Error && one.span == Some(span))
    }

    /// Whether further ones are left out.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// The number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.0.borrow().iter().filter(|one| one.severity == Severity::Error).count()
    }

    /// Whether there is an error, not only warnings.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.borrow().iter().any(|one| one.severity == Severity::Error)
    }

    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        self.0.into_inner()
    }
}

/// Whether a finding is about a part of the value that the other is about.
fn is_inside(inner: &Diagnostic, outer: &Diagnostic) -> bool {
    let (Some(part), Some(whole)) = (inner.span, outer.span) else { return false };
    let is_part = part.file == whole.file && whole.start < part.start && part.end < whole.end;
    is_part && !inner.field.is_empty() && inner.field == outer.field
}

impl Finding<'_> {
    /// Adds how to mend it, if that is known.
    pub(crate) fn maybe_help(self, help: Option<impl Into<String>>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Adds how to mend it.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        if let Some(finding) = self.findings.0.borrow_mut().get_mut(self.index) {
            finding.help = Some(one_line(help.into()));
        }
        self
    }
}
