//! `match`: the requests that a rule applies to.

use http::Method;
use portcullis_tower::matching::PathPattern;

use super::super::matcher::host::HostPattern;
use super::super::matcher::{Condition, Matcher};
use super::Reader;
use crate::fields::Fields;
use crate::tables::MATCH;
use crate::text::quoted;
use crate::tree::{Node, Value};

impl Reader<'_> {
    /// The default is every request.
    pub(super) fn matcher(&self, fields: &Fields<'_>) -> Option<Matcher> {
        let Some(node) = fields.node("match") else { return Some(Matcher::everything()) };
        self.conditions(node, &fields.path("match"))
    }

    /// The conditions of a field `match`, which is there.
    pub(super) fn conditions(&self, node: &Node, path: &str) -> Option<Matcher> {
        let mut any = Vec::new();
        // All are read, so that all mistakes are found.
        let conditions: Vec<_> = node.each().iter().map(|one| (one, self.condition(one, path))).collect();
        for (one, condition) in conditions {
            let condition = condition?;
            if condition.is_impossible() {
                self.findings.warning(path, one.span, "no request can fulfil this condition");
            }
            any.push(condition);
        }
        if any.is_empty() {
            self.findings
                .warning(path, node.span, "the list is empty, so the policy applies to no request")
                .help("leave out `match` for all requests, and write mode = \"off\" for none");
        }
        Some(Matcher { any })
    }

    fn condition(&self, node: &Node, path: &str) -> Option<Condition> {
        if let Value::String(text) = &node.value {
            let text = quoted(text);
            let finding =
                self.findings.error(path, node.span, format!("expected a table, not a text: {text}"));
            finding.help(format!("write {{ path = {text} }}"));
            return None;
        }
        let before = self.findings.errors();
        let fields = Fields::of(node, path, &MATCH, self.findings)?;
        let condition = Condition {
            path: fields.parse_with("path", PathPattern::parse),
            grpc: fields.parse_with("grpc", grpc),
            methods: self.list(&fields, "methods", method),
            hosts: self.list(&fields, "hosts", |text| {
                text.parse::<HostPattern>().map_err(|error| error.to_string())
            }),
            values: self.values(&fields),
        };
        (self.findings.errors() == before).then_some(condition)
    }

    fn list<T>(
        &self,
        fields: &Fields<'_>,
        field: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let texts = fields.texts(field)?.into_iter();
        let values = texts.filter_map(|(text, one)| {
            parse(text).map_err(|message| self.findings.error(fields.path(field), one.span, message)).ok()
        });
        Some(values.collect())
    }
}

pub(super) fn method(text: &str) -> Result<Method, String> {
    let method: Method = text.parse().map_err(|_| format!("{text:?} is no HTTP method"))?;
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(format!(
            "methods are case-sensitive, and {text:?} is not {:?}",
            text.to_ascii_uppercase()
        ));
    }
    Ok(method)
}

/// A service, or a method of it, as the pattern of its path.
fn grpc(name: &str) -> Result<PathPattern, String> {
    let malformed = || format!("{name:?} is neither `package.Service` nor `package.Service/Method`");
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
    };
    let pattern = match name.split_once('/') {
        Some((service, method)) if is_part(service) && is_part(method) => format!("/{name}"),
        None if is_part(name) => format!("/{name}/{{method}}"),
        _ => return Err(malformed()),
    };
    PathPattern::parse(&pattern).map_err(|_| malformed())
}
