//! What rules need of the place where they decide.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::fields::join;
use crate::source::Span;
use crate::tree::{Entry, Node, Value};

use super::Rules;
use super::read::each;

/// A place where rules decide about requests. Not each of them can do all that a rule may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Door {
    /// A layer in a program: it can do all of it.
    Code,
    /// A reverse proxy, which sees requests and their responses. It has no router, and no program that adds to requests.
    Proxy,
    /// A check that a proxy asks for. It sees the head of a request, and never its response or its end.
    Check,
    /// Envoy's rate limit service. It sees descriptors, and never a response or the end of a request.
    Serve,
}

/// A field of a file that not every door can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    kind: Kind,
    /// The path of the field, such as `policy.search.key`.
    field: String,
    span: Span,
}

/// What a field needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The route that a router has matched, in a key.
    RouteKey,
    /// The same in a list.
    RouteList,
    /// What the program adds to a request.
    Extension,
    /// A tier that the program adds to a request.
    Tier,
    /// The response.
    Response,
    /// The instant at which a request ends.
    End,
    /// A handler that counts what a response uses.
    Usage,
}

impl Rules {
    /// Checks that a door can do all that the rules say.
    ///
    /// # Errors
    ///
    /// All that it cannot do, each with its place, beside the warnings.
    ///
    /// # Examples
    ///
    /// ```
    /// use portcullis_config::{Door, Format, Loader, Rules};
    ///
    /// let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.exports]
    ///     strategy = "in_flight"
    ///     limit = 4
    ///     key = "client_ip"
    /// "#))?;
    /// assert!(rules.usable_by(Door::Proxy).is_ok());
    /// let refused = rules.usable_by(Door::Check).unwrap_err();
    /// assert!(refused.to_string().contains("policy.exports.strategy: "));
    /// # Ok::<(), portcullis_config::Diagnostics>(())
    /// ```
    pub fn usable_by(&self, door: Door) -> Result<(), Diagnostics> {
        let refused: Vec<_> = self
            .0
            .needs
            .iter()
            .filter(|need| !door.offers(need.kind))
            .map(|need| need.refused(door))
            .collect();
        if refused.is_empty() { Ok(()) } else { Err(self.0.warnings.with(&refused)) }
    }
}

impl Door {
    fn offers(self, kind: Kind) -> bool {
        match self {
            Self::Code => true,
            Self::Proxy => matches!(kind, Kind::Response | Kind::End),
            Self::Check | Self::Serve => false,
        }
    }

    fn shows(self) -> &'static str {
        match self {
            Self::Code => "a program has all of it",
            Self::Proxy => "a reverse proxy has only requests and their responses",
            Self::Check => "a proxy that asks for a check shows only the head of the request",
            Self::Serve => "Envoy shows only descriptors of the request",
        }
    }
}

impl Need {
    fn refused(&self, door: Door) -> Diagnostic {
        let (needs, help) = match self.kind {
            Kind::RouteKey => (
                "the route that the router of a program has matched",
                "write a policy for each route, with its path in `match`",
            ),
            Kind::RouteList => {
                ("the route that the router of a program has matched", "use `path` or `prefix` in its place")
            }
            Kind::Extension => (
                "what a program adds to the request",
                "use what the request itself has: an address, a header, a cookie or a parameter",
            ),
            Kind::Tier => (
                "the tier that a program adds to the request",
                "name the header in which the tier is: tier = { header = \"x-plan\" }",
            ),
            Kind::Response => ("the response to each request", RESPONSES),
            Kind::End => ("the end of each request", RESPONSES),
            Kind::Usage => (
                "a handler that counts what its response uses",
                "remove the field, and give the policy a `cost`",
            ),
        };
        let name = self.field.rsplit('.').next().unwrap_or_default();
        let message = format!("`{name}` needs {needs}, and {}", door.shows());
        Diagnostic::error(self.field.clone(), self.span, message).help(help)
    }
}

const RESPONSES: &str =
    "remove the field, or put `portcullis proxy` in front of the service, which sees responses";

/// All that the documents of a load need.
pub(super) fn needs(documents: &[Node]) -> Vec<Need> {
    let mut found = Vec::new();
    for document in documents {
        for entry in entries(document) {
            match entry.name.as_str() {
                "layer" => lists("layer", &entry.node, &mut found),
                "policy" => {
                    for policy in entries(&entry.node) {
                        of_policy(&join("policy", &policy.name), &policy.node, &mut found);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn of_policy(table: &str, policy: &Node, found: &mut Vec<Need>) {
    let has = |name: &str| entries(policy).any(|entry| entry.name == name);
    for entry in entries(policy) {
        let is_on = entry.node.value != Value::Bool(false);
        let kind = match entry.name.as_str() {
            "key" => {
                key(table, &entry.node, found);
                continue;
            }
            "strategy" if is_text(&entry.node, "in_flight") => Kind::End,
            "in_flight" => Kind::End,
            "charge_when" => Kind::Response,
            "look_first" | "refund_unanswered" if is_on => Kind::Response,
            "reserve" => Kind::Usage,
            "tiers" if !has("tier") => Kind::Tier,
            _ => continue,
        };
        found.push(Need { kind, field: join(table, &entry.name), span: entry.node.span });
    }
    lists(table, policy, found);
}

/// A key, alone or in another one.
fn key(table: &str, node: &Node, found: &mut Vec<Need>) {
    let mut push = |kind| found.push(Need { kind, field: join(table, "key"), span: node.span });
    match &node.value {
        Value::String(name) if name == "route" => push(Kind::RouteKey),
        Value::List(parts) => parts.iter().for_each(|part| key(table, part, found)),
        Value::Map(fields) => {
            for entry in fields {
                match entry.name.as_str() {
                    "extension" => push(Kind::Extension),
                    "all" => return key(table, &entry.node, found),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn lists(table: &str, node: &Node, found: &mut Vec<Need>) {
    for list in entries(node).filter(|entry| ["except", "deny", "only"].contains(&entry.name.as_str())) {
        let routes = each(&list.node).iter().flat_map(entries).filter(|entry| entry.name == "route");
        let field = join(&join(table, &list.name), "route");
        found.extend(routes.map(|route| Need {
            kind: Kind::RouteList,
            field: field.clone(),
            span: route.node.span,
        }));
    }
}

fn entries(node: &Node) -> impl Iterator<Item = &Entry> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter()
}

fn is_text(node: &Node, text: &str) -> bool {
    matches!(&node.value, Value::String(value) if value == text)
}
