//! Merge keys: `<<` adds the fields of another map.

use std::collections::HashMap;

use super::node::{Node, Value};
use super::scalar::Kind;
use crate::diagnostic::Diagnostic;

/// The fields of a map, in the order of the file.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) entries: Vec<(Node, Node)>,
    /// Where each field is. Known from the first merge key on, as the parser refuses fields that are there twice.
    places: Option<HashMap<(String, Kind), usize>>,
}

impl Fields {
    /// Sets a field. A map in `rate_limit` or `metadata` is added to the one that is there.
    pub(super) fn set(&mut self, key: Node, value: Node) {
        let place = match (&mut self.places, id(&key)) {
            (Some(places), Some(id)) => {
                let end = self.entries.len();
                *places.entry(id).or_insert(end)
            }
            _ => self.entries.len(),
        };
        let Some((old_key, old)) = self.entries.get_mut(place) else {
            self.entries.push((key, value));
            return;
        };
        let adds = matches!(&key.value, Value::Scalar(name, _) if name == "rate_limit" || name == "metadata");
        match (&mut old.value, value) {
            (Value::Map(fields), Node { value: Value::Map(added), span }) if adds => {
                let mut both = Self { entries: std::mem::take(fields), places: None };
                both.add(added);
                *fields = both.entries;
                old.span = span;
            }
            (_, value) => *old = value,
        }
        *old_key = key;
    }

    /// Adds the fields of a merge key: a map, or a list of maps of which the first ones take precedence. Fields that come later in
    /// the file replace them, and they replace those in front of it.
    pub(super) fn merge(&mut self, value: Node) -> Result<(), Diagnostic> {
        let sources = match value.value {
            Value::List(items) => items,
            _ => vec![value],
        };
        for Node { span, value } in sources.into_iter().rev() {
            let Value::Map(fields) = value else {
                return Err(Diagnostic::error("<<", span, "a merge key takes a map, or a list of maps")
                    .help("write `<<: *name`, where `&name` marks a map"));
            };
            self.add(fields);
        }
        Ok(())
    }

    fn add(&mut self, fields: Vec<(Node, Node)>) {
        if self.places.is_none() {
            let ids = self.entries.iter().enumerate().filter_map(|(place, (key, _))| Some((id(key)?, place)));
            self.places = Some(ids.collect());
        }
        for (key, value) in fields {
            self.set(key, value);
        }
    }
}

/// What tells fields apart. Fields whose name is not a scalar are never the same.
fn id(key: &Node) -> Option<(String, Kind)> {
    match &key.value {
        Value::Scalar(text, kind) => Some((text.clone(), *kind)),
        Value::List(_) | Value::Map(_) => None,
    }
}
