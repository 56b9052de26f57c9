//! Which fields of a value are wrong, whatever the others are.

use super::{DecodeError, Fields, MapFields, Part};
use crate::source::{FileId, Span};
use crate::tree::{Entry, Node, Value};

impl Fields<'_> {
    /// Reports the fields that are also wrong once the one at `reported` is fixed. Stand-ins take the places of fields that are not known;
    /// a mistake that shows with some stand-ins only is not certain, and not reported.
    pub(super) fn report_others<T>(
        &self,
        mut entries: Vec<&Entry>,
        reported: Span,
        read: &impl Fn(Part<'_>) -> Result<T, DecodeError>,
    ) {
        let mut lacking: Vec<&str> = Vec::new();
        remove(&mut entries, reported);
        loop {
            let read_with = |values: &[(&str, Value); 2]| {
                let of = |(name, value): &(&str, Value)| Entry {
                    name: (*name).to_owned(),
                    name_span: NOWHERE,
                    node: Node::new(NOWHERE, value.clone()),
                };
                let stand_ins: Vec<Entry> =
                    values.iter().filter(|(name, _)| lacking.contains(name)).map(of).collect();
                let entries = entries.iter().copied().chain(&stand_ins);
                read(Part::new(MapFields::new(entries.collect()))).err()
            };
            let [Some(error), Some(other)] = stand_ins().each_ref().map(read_with) else { return };
            if error.to_string() != other.to_string() {
                return;
            }
            if let Some(field) = error.missing() {
                let next = if field == "period" { "period" } else { "limit" };
                if !matches!(field, "quota" | "limit" | "period") || lacking.contains(&next) {
                    return;
                }
                lacking.push(next);
                continue;
            }
            let (path, span) = error.place_among(&self.path, self.node.span, &entries);
            if !remove(&mut entries, span) {
                return;
            }
            error.finding(&path, span, self.findings);
        }
    }
}

/// Removes the entry whose value is at fault.
fn remove(entries: &mut Vec<&Entry>, fault: Span) -> bool {
    let is_at_fault =
        |entry: &&Entry| entry.node.span.start <= fault.start && fault.end <= entry.node.span.end;
    let found = entries.iter().position(is_at_fault);
    found.map(|at| entries.remove(at)).is_some()
}

/// Two stand-in quotas that differ in every field.
fn stand_ins() -> [[(&'static str, Value); 2]; 2] {
    [(1, "1w"), (4_000_000_000, "1s")].map(|(limit, period)| {
        [("limit", Value::Integer(limit)), ("period", Value::String(period.to_owned()))]
    })
}

/// The place of what stands in for a field, which is in no value of a file.
const NOWHERE: Span = Span { file: FileId(u32::MAX), start: 0, end: usize::MAX };
