//! What is wrong with a file: all mistakes together, each with its place and its fix.

use std::fmt;
use std::sync::Arc;

pub use crate::source::Location;
use crate::source::{Sources, Span};

/// Whether a finding makes the rules unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong, and there is something to know: what has to be true outside of the file, such as a header that a proxy overwrites, or a name
    /// that only a program has and that [`Loader::accept_unknown_names`](crate::Loader::accept_unknown_names) lets pass.
    Note,
    /// The rules work, and probably not as their author expects.
    Warning,
    /// The rules cannot be used.
    Error,
}

/// One finding in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the rules can be used nevertheless.
    pub severity: Severity,
    /// The field, as a path such as `policy.search.quota`. Empty for the whole file.
    pub field: String,
    /// What is wrong, with the value.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
    /// The place. `None` for what has no place in a file, such as one that cannot be opened.
    pub span: Option<Span>,
}

/// All findings of one load, with the texts that they point into.
///
/// `Debug` writes the same lines as `Display`, because a `main` that returns an error prints it so.
#[derive(Clone)]
pub struct Diagnostics {
    sources: Arc<Sources>,
    list: Vec<Diagnostic>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(field: impl Into<String>, span: Span, message: impl Into<String>) -> Self {
        Self { field: field.into(), span: Some(span), ..Self::without_place(Severity::Error, message) }
    }

    /// A warning at a place.
    pub fn warning(field: impl Into<String>, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(field, span, message) }
    }

    /// A note at a place.
    pub fn note(field: impl Into<String>, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(field, span, message) }
    }

    /// What has no place in a file.
    pub(crate) fn without_place(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, field: String::new(), message: message.into(), help: None, span: None }
    }

    /// Adds how to mend it.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl Diagnostics {
    /// The findings of a load, those that come first in the files in front. They name environment variables in place of their values.
    pub fn new(sources: Arc<Sources>, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|one| one.span.map(|span| (span.file, span.start)));
        for one in &mut list {
            one.message = sources.without_values(std::mem::take(&mut one.message), one.span);
            one.help = one.help.take().map(|help| sources.without_values(help, one.span));
        }
        Self { sources, list }
    }

    /// These and more findings about the same texts.
    pub(crate) fn with(&self, more: &[Diagnostic]) -> Self {
        Self::new(Arc::clone(&self.sources), [self.list.as_slice(), more].concat())
    }

    /// The texts that the findings point into.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Whether there is an error among the findings.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|one| one.severity == Severity::Error)
    }

    /// Whether there is a warning or an error among the findings, not only notes.
    pub fn has_warnings(&self) -> bool {
        self.list.iter().any(|one| one.severity >= Severity::Warning)
    }

    /// The warnings and errors among the findings, without notes.
    #[must_use]
    pub fn without_notes(&self) -> Self {
        let list = self.list.iter().filter(|one| one.severity >= Severity::Warning).cloned().collect();
        Self { sources: Arc::clone(&self.sources), list }
    }

    /// The findings, those that come first in the files in front.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Where a finding is.
    pub fn location(&self, diagnostic: &Diagnostic) -> Option<Location> {
        diagnostic.span.map(|span| self.sources.location(span))
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Diagnostics {
    /// A line for each finding: `limits.toml:3:9: error: policy.search.quota: ... (help: ...)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            if let Some(location) = self.location(one) {
                write!(f, "{location}: ")?;
            }
            let severity = match one.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            write!(f, "{severity}: ")?;
            if !one.field.is_empty() {
                write!(f, "{}: ", one.field)?;
            }
            f.write_str(&one.message)?;
            if let Some(help) = &one.help {
                write!(f, " (help: {help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
