//! What a file refers to by name: `reject_with`, and the names that a program registers.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::rejections;
use super::Reader;
use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, nearest, quoted};
use crate::hooks::RejectWith;

impl Reader<'_> {
    /// What the program has registered by this name. Without it there is an error, or a note with what follows if the program is not
    /// there. `field` refers to a `kind`, which `Loader::method` registers.
    pub(super) fn registered<'h, T>(
        &self,
        registered: &'h HashMap<String, T>,
        fields: &Fields<'_>,
        [field, kind, method]: [&str; 3],
        name: &str,
        without: &str,
    ) -> Option<&'h T> {
        let found = registered.get(name);
        if found.is_some() {
            return found;
        }
        if self.hooks.any_name {
            let shown = quoted(name);
            let message = format!("only the program has {kind} {shown}: without it, {without}");
            let help = format!("the program registers it: Loader::{method}({shown}, ..)");
            let note = Diagnostic::note(fields.path(field), fields.span_of(field), message);
            self.findings.add(note.help(help));
        } else {
            self.unregistered(registered, fields, [field, kind, method], name);
        }
        None
    }

    /// What the program has registered by the name in the field `function`, or what stands in for it if the program is not there.
    pub(super) fn function<T: Clone>(
        &self,
        registered: &HashMap<String, T>,
        fields: &Fields<'_>,
        [kind, method]: [&str; 2],
        without: &str,
        stand_in: Option<T>,
    ) -> Option<T> {
        let name: String = fields.read("function")?;
        let found = self.registered(registered, fields, ["function", kind, method], &name, without);
        found.cloned().or(stand_in.filter(|_| self.hooks.any_name))
    }

    /// The error of a name that nothing has registered.
    pub(super) fn unregistered<T>(
        &self,
        registered: &HashMap<String, T>,
        fields: &Fields<'_>,
        [field, kind, method]: [&str; 3],
        name: &str,
    ) {
        let shown = quoted(name);
        if self.hooks.doors.is_empty() {
            let instead = instead(registered, name);
            fields
                .error(field, format!("no {kind} {shown} is registered"))
                .help(format!("{instead}register it in the program: Loader::{method}({shown}, ..)"));
        } else {
            fields
                .error(field, format!("only a program has {kind} {shown}, and none is here"))
                .help("write what a file can say by itself, or limit in the program");
        }
    }

    /// `{ function = "page" }` or `{ status = 503, body = ".." }`
    pub(super) fn reject_with(&self, fields: &Fields<'_>) -> Option<Arc<RejectWith>> {
        let fields = fields.table("reject_with")?;
        if !fields.has("function") {
            return rejections::of_table(&fields);
        }
        for field in ["status", "body", "content_type"].into_iter().filter(|field| fields.has(field)) {
            fields
                .error(field, format!("`function` and `{field}` are both given"))
                .help("write one of the two");
        }
        let without = "rejected requests have the usual response";
        self.function(&self.hooks.rejections, &fields, ["rejection"; 2], without, None)
    }
}

/// The names that are registered, the nearest one alone if there is one: the start of a help.
fn instead<T>(registered: &HashMap<String, T>, name: &str) -> String {
    let mut names: Vec<_> = registered.keys().map(String::as_str).collect();
    names.sort_unstable();
    if let Some(nearest) = nearest(name, names.iter().copied()) {
        return format!("did you mean {}? Or ", quoted(nearest));
    }
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<_> = names.into_iter().map(quoted).collect();
    format!("the program has registered {}: use one of them, or ", names.join(", "))
}
