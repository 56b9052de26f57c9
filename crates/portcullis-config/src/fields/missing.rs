//! Fields that are missing because their names are misspelt.

use super::Fields;
use crate::findings::Finding;
use crate::source::Span;

/// An error that says that a table lacks one of some fields.
pub(super) struct Missing {
    names: Vec<String>,
    field: String,
    message: String,
}

impl<'a> Fields<'a> {
    /// Adds an error that one of these fields is missing, at the table.
    ///
    /// [`finish`](Self::finish) retracts it if the table has one of them under a misspelt name: that is one mistake, and its finding
    /// has the place.
    pub(crate) fn missing(&self, names: &[&str], message: impl Into<String>) -> Finding<'a> {
        self.missing_at(names, self.path.clone(), self.span, message)
    }

    /// Like [`missing`](Self::missing), at another place.
    pub(crate) fn missing_at(
        &self,
        names: &[&str],
        field: String,
        span: Span,
        message: impl Into<String>,
    ) -> Finding<'a> {
        let message = message.into();
        self.note_missing(names, &field, &message);
        self.findings.error(field, span, message)
    }

    /// Notes that an error about a field says that one of `names` is missing.
    pub(super) fn note_missing(&self, names: &[&str], field: &str, message: &str) {
        if names.is_empty() {
            return;
        }
        // A quota may be written in several fields.
        let in_parts = names.contains(&"quota").then_some("limit");
        let names = names.iter().copied().chain(in_parts).map(str::to_owned).collect();
        let missing = Missing { names, field: field.to_owned(), message: message.to_owned() };
        self.missing.borrow_mut().push(missing);
    }

    /// Removes the errors that say that `name` is missing.
    pub(super) fn retract_missing(&self, name: &str) {
        self.missing.borrow_mut().retain(|missing| {
            let is_misspelt = missing.names.iter().any(|known| known == name);
            if is_misspelt {
                self.findings.retract(&missing.field, &missing.message);
            }
            !is_misspelt
        });
    }
}
