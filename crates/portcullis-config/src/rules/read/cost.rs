//! `cost`: the units of a request.

use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use portcullis_tower::Cost;
use portcullis_tower::matching::{PathPattern, PathReadings};

use super::{Reader, chosen_by_client};
use crate::fields::{Fields, decode, entries, join};
use crate::tree::{Node, Value};

impl Reader<'_> {
    /// Reads the cost under a policy that admits at most `most` units at once, if that is known.
    pub(super) fn cost(&self, fields: &Fields<'_>, most: Option<u64>) -> Option<Box<dyn Cost>> {
        let node = fields.node("cost")?;
        let path = fields.path("cost");
        if !matches!(node.value, Value::Map(_)) {
            let units: u64 = decode(node, &path, self.findings)?;
            if units == 0 {
                self.findings
                    .warning(path, node.span, "a cost of 0 charges nothing: the policy limits no request")
                    .help("write 1 or more, or mode = \"off\"");
            } else {
                self.never_fits(path, node, units, most);
            }
            return Some(Box::new(move |_: &Parts| units));
        }
        let fields = fields.table("cost")?;
        let header = fields.header("header");
        let max: Option<u64> = fields.read("max");
        let paths = fields.node("path");
        let function: Option<String> = fields.read("function");
        match (fields.has("header"), paths, fields.has("function")) {
            (true, None, false) => Self::header_cost(&fields, header, max),
            (false, Some(paths), false) if max.is_none() => self.path_cost(paths, &fields.path("path"), most),
            (false, None, true) if max.is_none() => {
                // A name of another kind is an error already.
                function?;
                let (what, without) = (["cost"; 2], "each request costs 1");
                let one: Arc<dyn Cost> = Arc::new(|_: &Parts| 1);
                let cost = self.function(&self.hooks.costs, &fields, what, without, Some(one))?;
                Some(Box::new(move |parts: &Parts| cost(parts)))
            }
            _ => {
                fields
                    .missing(&["header", "path", "function"], "the table is no cost")
                    .help("write { header = \"x-cost\", max = 100 }, { path = { \"/export\" = 100 } } or { function = \"name\" }");
                None
            }
        }
    }

    fn header_cost(
        fields: &Fields<'_>,
        header: Option<HeaderName>,
        max: Option<u64>,
    ) -> Option<Box<dyn Cost>> {
        if max.is_none() && !fields.has("max") {
            fields
                .missing(&["max"], "`max` is missing")
                .help("a client writes the header: bound what it can cost, such as max = 100");
        }
        let (header, max) = header.zip(max)?;
        if max == 0 {
            fields.error("max", "a cost of at most 0 charges nothing");
            return None;
        }
        fields.warning("header", chosen_by_client(&header));
        // At least 1, because a cost of 0 is always admitted.
        Some(Box::new(move |parts: &Parts| {
            let mut values = parts.headers.get_all(&header).iter();
            let Some(value) = values.next() else { return 1 };
            let units = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
            units.filter(|_| values.next().is_none()).unwrap_or(max).clamp(1, max)
        }))
    }

    /// The highest cost whose pattern matches a reading of the path, else 1. A lower cost than 1 needs a certain match.
    fn path_cost(&self, node: &Node, path: &str, most: Option<u64>) -> Option<Box<dyn Cost>> {
        let mut costs: Vec<(PathPattern, u64)> = Vec::new();
        for entry in entries(node, path, self.findings)? {
            let path = join(path, &entry.name);
            let pattern = PathPattern::parse(&entry.name)
                .map_err(|error| self.findings.error(&*path, entry.name_span, error.to_string()));
            if let (Ok(pattern), Some(units)) = (pattern, decode(&entry.node, &path, self.findings)) {
                self.never_fits(path, &entry.node, units, most);
                costs.push((pattern, units));
            }
        }
        Some(Box::new(move |parts: &Parts| {
            let path = PathReadings::of(parts);
            let units = |(pattern, units): &(PathPattern, u64)| {
                path.meet(pattern).then(|| if path.are_certain(pattern) { *units } else { (*units).max(1) })
            };
            costs.iter().filter_map(units).max().unwrap_or(1)
        }))
    }

    fn never_fits(&self, path: String, node: &Node, units: u64, most: Option<u64>) {
        if let Some(most) = most.filter(|most| units > *most) {
            let message = format!("a cost of {units} never fits: the policy admits at most {most} at once");
            self.findings
                .warning(path, node.span, message)
                .help("raise the burst or the limit, or lower the cost: such requests are always rejected");
        }
    }
}
