//! `cost`: the units of a request.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, Method};
use portcullis_tower::Cost;
use portcullis_tower::matching::{PathPattern, PathReadings, may_be};

use super::super::matcher::value::ValueCondition;
use super::super::matcher::{Matcher, RequestView};
use super::matching::method;
use super::{Reader, chosen_by_client};
use crate::fields::{Fields, decode, entries, join};
use crate::tables::{COST, COST_WHEN};
use crate::tree::{Node, Value};

/// A cost, and whether a client lowers it by something that it writes.
pub(super) struct ReadCost {
    pub(super) cost: Box<dyn Cost>,
    pub(super) is_left_by_writing: bool,
}

impl Reader<'_> {
    /// Reads the cost under a policy that admits at most `most` units at once, if that is known.
    pub(super) fn cost(&self, fields: &Fields<'_>, most: Option<u64>) -> Option<ReadCost> {
        if let Some(table) = fields.node("cost").filter(|node| node.get("when").is_some()) {
            let fields = Fields::of(table, fields.path("cost"), &COST, self.findings)?;
            return Some(self.cost_when(&fields, most));
        }
        Some(ReadCost { cost: self.plain_cost(fields, most)?, is_left_by_writing: false })
    }

    /// The highest units whose conditions a request meets, or may meet to a server.
    fn cost_when(&self, fields: &Fields<'_>, most: Option<u64>) -> ReadCost {
        if let Some(other) = ["header", "max", "trusted", "path", "method", "function"]
            .into_iter()
            .find(|other| fields.has(other))
        {
            fields.error(other, format!("`{other}` and `when` are both given")).help("write one of the two");
        }
        let path = fields.path("when");
        let mut costs: Vec<(Matcher, u64)> = Vec::new();
        for node in fields.each("when") {
            let Some(one) = Fields::of(node, path.as_str(), &COST_WHEN, self.findings) else { continue };
            let matcher = one.node("match").and_then(|node| self.conditions(node, &one.path("match")));
            let units: Option<u64> = one.read("units");
            if let Some((units, node)) = units.zip(one.node("units")) {
                if units == 0 {
                    one.error("units", "a cost of 0 relieves, which a condition of a client may not")
                        .help("write 1 or more, or `except`");
                }
                self.never_fits(one.path("units"), node, units, most);
            }
            costs.extend(matcher.zip(units));
        }
        let is_left_by_writing =
            costs.iter().any(|(matcher, _)| matcher.written().any(ValueCondition::is_left_by_writing));
        let cost = Box::new(move |parts: &Parts| {
            let readings = PathReadings::of(parts);
            let request = RequestView::of(&readings);
            let met = costs.iter().filter(|(matcher, _)| matcher.matches(&request));
            met.map(|(_, units)| *units).max().unwrap_or(1)
        });
        ReadCost { cost, is_left_by_writing }
    }

    fn plain_cost(&self, fields: &Fields<'_>, most: Option<u64>) -> Option<Box<dyn Cost>> {
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
        let (paths, methods) = (fields.node("path"), fields.node("method"));
        let is_trusted = self.trusted(&fields, header.as_ref());
        let function: Option<String> = fields.read("function");
        match (fields.has("header"), paths, methods, fields.has("function")) {
            (true, None, None, false) => self.header_cost(&fields, header, max, is_trusted),
            (false, Some(paths), None, false) if max.is_none() => {
                self.path_cost(paths, &fields.path("path"), most)
            }
            (false, None, Some(methods), false) if max.is_none() => {
                self.method_cost(methods, &fields.path("method"), most)
            }
            (false, None, None, true) if max.is_none() => {
                // A name of another kind is an error already.
                function?;
                let (what, without) = (["cost"; 2], "each request costs 1");
                let one: Arc<dyn Cost> = Arc::new(|_: &Parts| 1);
                let cost = self.function(&self.hooks.costs, &fields, what, without, Some(one))?;
                Some(Box::new(move |parts: &Parts| cost(parts)))
            }
            _ => {
                fields
                    .missing(&["header", "path", "method", "function", "when"], "the table is no cost")
                    .help("write { header = \"x-cost\", max = 100 }, { path = { \"/export\" = 100 } }, { method = { POST = 5 } }, { when = { match = .., units = 5 } } or { function = \"name\" }");
                None
            }
        }
    }

    fn header_cost(
        &self,
        fields: &Fields<'_>,
        header: Option<HeaderName>,
        max: Option<u64>,
        is_trusted: bool,
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
        if !is_trusted {
            fields
                .warning("header", chosen_by_client(&header))
                .help("name the networks of that proxy in [client_ip], and write trusted = true");
        }
        let proxies = is_trusted.then(|| self.clients.clone());
        // At least 1, because a cost of 0 is always admitted.
        Some(Box::new(move |parts: &Parts| {
            if proxies.as_ref().is_some_and(|proxies| !proxies.trusts_peer(parts)) {
                return 1;
            }
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

    /// The highest cost of a method for which a server may take that of the request, else 1. A lower cost than 1 needs the method as it is
    /// written.
    fn method_cost(&self, node: &Node, path: &str, most: Option<u64>) -> Option<Box<dyn Cost>> {
        let mut costs: Vec<(Method, u64)> = Vec::new();
        for entry in entries(node, path, self.findings)? {
            let path = join(path, &entry.name);
            let method =
                method(&entry.name).map_err(|message| self.findings.error(&*path, entry.name_span, message));
            if let (Ok(method), Some(units)) = (method, decode(&entry.node, &path, self.findings)) {
                self.never_fits(path, &entry.node, units, most);
                costs.push((method, units));
            }
        }
        Some(Box::new(move |parts: &Parts| {
            let is_written = |method: &Method| *method == parts.method;
            let own = costs.iter().find(|(method, _)| is_written(method));
            let units = |(method, units): &(Method, u64)| may_be(method, parts).then(|| (*units).max(1));
            own.map(|(_, units)| *units).or_else(|| costs.iter().filter_map(units).max()).unwrap_or(1)
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
