//! The requests that a rule applies to.

pub(super) mod covers;
pub(super) mod host;
pub(super) mod value;

use std::fmt;

use http::Method;
use http::request::Parts;
use portcullis_tower::matching::{PathPattern, PathReading, PathReadings, is_taken_for, may_be};

use host::HostPattern;
use value::ValueCondition;

/// Some alternatives, of which one has to hold.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pub(super) any: Vec<Condition>,
}

/// What a request has to be, all of it. A part that is `None` holds for each request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    pub(super) path: Option<PathPattern>,
    /// The path of the method, or of all methods of the service.
    pub(super) grpc: Option<PathPattern>,
    pub(super) methods: Option<Vec<Method>>,
    pub(super) hosts: Option<Vec<HostPattern>>,
    /// Of headers and of the query. All have to hold.
    pub(super) values: Vec<ValueCondition>,
}

/// What the conditions of all rules compare.
pub(crate) struct RequestView<'r, 'p> {
    parts: &'p Parts,
    path: PathView<'r, 'p>,
}

enum PathView<'r, 'p> {
    All(&'r PathReadings<'p>),
    One(PathReading<'r, 'p>),
}

impl<'r, 'p> RequestView<'r, 'p> {
    pub(crate) fn of(readings: &'r PathReadings<'p>) -> Self {
        Self { parts: readings.parts(), path: PathView::All(readings) }
    }

    /// As if each reading of the path were the only one.
    pub(crate) fn each(readings: &'r PathReadings<'p>) -> impl Iterator<Item = Self> {
        readings.each().map(|reading| Self { parts: readings.parts(), path: PathView::One(reading) })
    }

    fn has_path(&self, pattern: &PathPattern) -> bool {
        match &self.path {
            PathView::All(readings) => readings.meet(pattern),
            PathView::One(reading) => reading.meets(pattern),
        }
    }
}

impl Matcher {
    pub(crate) fn everything() -> Self {
        Self { any: vec![Condition::default()] }
    }

    /// The conditions that a client meets or not by what it writes.
    pub(super) fn written(&self) -> impl Iterator<Item = &ValueCondition> {
        let values = self.any.iter().flat_map(|condition| &condition.values);
        values.filter(|value| !value.written.is_trusted)
    }

    /// The requests that it matches whatever a client writes.
    pub(super) fn without_written(&self) -> Self {
        let mut any = self.any.clone();
        for condition in &mut any {
            condition.values.retain(|value| value.written.is_trusted);
        }
        Self { any }
    }

    pub(crate) fn matches(&self, request: &RequestView<'_, '_>) -> bool {
        self.any.iter().any(|condition| condition.mismatch(request).is_none())
    }

    /// `None` if it matches, else the first part that does not hold of the alternative of which the most parts hold.
    pub(crate) fn mismatch(&self, request: &RequestView<'_, '_>) -> Option<String> {
        let mut nearest: Option<(usize, String)> = None;
        for condition in &self.any {
            let (holds, part) = condition.mismatch(request)?;
            if nearest.as_ref().is_none_or(|(most, _)| holds > *most) {
                nearest = Some((holds, condition.part_text(part)));
            }
        }
        Some(nearest.map_or_else(|| "match = []".to_owned(), |(_, text)| text))
    }
}

#[derive(Clone, Copy)]
enum Part {
    Path,
    Grpc,
    Methods,
    Hosts,
    /// The value of this index.
    Value(usize),
}

impl Condition {
    /// `None` if it holds, else the number of parts before the first that does not.
    fn mismatch(&self, request: &RequestView<'_, '_>) -> Option<(usize, Part)> {
        // The cheapest comparison first.
        let parts = request.parts;
        if !self.methods.as_ref().is_none_or(|methods| methods.iter().any(|method| may_be(method, parts))) {
            return Some((0, Part::Methods));
        }
        if !self.path.as_ref().is_none_or(|path| request.has_path(path)) {
            return Some((1, Part::Path));
        }
        if !self.grpc.as_ref().is_none_or(|path| request.has_path(path)) {
            return Some((1, Part::Grpc));
        }
        let holds = |hosts: &Vec<HostPattern>| hosts.iter().any(|host| host.matches_request(request.parts));
        if !self.hosts.as_ref().is_none_or(holds) {
            return Some((2, Part::Hosts));
        }
        let unmet = self.values.iter().position(|value| !value.is_met(parts));
        unmet.map(|index| (3 + index, Part::Value(index)))
    }

    /// Whether it holds for a method, whatever the path.
    pub(super) fn has_method(&self, method: &Method) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(|other| is_taken_for(method, other)))
    }

    pub(super) fn has_host(&self, host: Option<&str>) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        host.is_some_and(|host| hosts.iter().any(|pattern| pattern.matches(host)))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathPattern> {
        self.path.iter().chain(&self.grpc)
    }

    /// Whether no request can fulfil it.
    pub(super) fn is_impossible(&self) -> bool {
        let apart =
            self.path.as_ref().zip(self.grpc.as_ref()).is_some_and(|(path, grpc)| !path.overlaps(grpc));
        apart
            || self.methods.as_ref().is_some_and(Vec::is_empty)
            || self.hosts.as_ref().is_some_and(Vec::is_empty)
    }

    fn part_text(&self, part: Part) -> String {
        match part {
            Part::Path => self.path.as_ref().map(|path| format!("path = \"{path}\"")),
            Part::Grpc => self.grpc.as_ref().map(|path| format!("grpc = \"{}\"", grpc_name(path))),
            Part::Methods => {
                self.methods.as_ref().map(|methods| format!("methods = [{}]", quoted_list(methods)))
            }
            Part::Hosts => self.hosts.as_ref().map(|hosts| format!("hosts = [{}]", quoted_list(hosts))),
            Part::Value(index) => self.values.get(index).map(ToString::to_string),
        }
        .unwrap_or_default()
    }
}

fn grpc_name(path: &PathPattern) -> &str {
    let name = path.text().trim_start_matches('/');
    name.strip_suffix("/{method}").unwrap_or(name)
}

fn quoted_list(values: &[impl fmt::Display]) -> String {
    values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [Part::Path, Part::Grpc, Part::Methods, Part::Hosts].into_iter();
        let values = (0..self.values.len()).map(Part::Value);
        let texts: Vec<_> =
            parts.chain(values).map(|part| self.part_text(part)).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() { f.write_str("every request") } else { f.write_str(&texts.join(", ")) }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.any.is_empty() {
            return f.write_str("no request");
        }
        for (index, condition) in self.any.iter().enumerate() {
            write!(f, "{}{condition}", if index == 0 { "" } else { "; or " })?;
        }
        Ok(())
    }
}
