//! Finds what the fields of files need.

use http::{HeaderName, header};

use super::{Kind, Need};
use crate::fields::join;
use crate::tree::{Node, Value};

/// All that the documents of a load need.
pub(crate) fn needs(documents: &[Node]) -> Vec<Need> {
    let mut found = Vec::new();
    for document in documents {
        for entry in document.entries() {
            match entry.name.as_str() {
                "client_ip" => of_table("client_ip", &entry.node, &mut found),
                "layer" => of_layer(&entry.node, &mut found),
                "policy" => {
                    for policy in entry.node.entries() {
                        of_policy(&join("policy", &policy.name), &policy.node, &mut found);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn of_layer(layer: &Node, found: &mut Vec<Need>) {
    for entry in layer.entries() {
        let field = join("layer", &entry.name);
        match entry.name.as_str() {
            "without_charge" if is_on(&entry.node) => push(Kind::Charge, field, &entry.node, found),
            "show_generation" => {
                push(Kind::ShownHeader, field.clone(), &entry.node, found);
                named(Kind::AskingHeader, field, &entry.node, found);
            }
            _ => {}
        }
    }
    lists("layer", layer, found);
}

fn of_policy(table: &str, policy: &Node, found: &mut Vec<Need>) {
    for entry in policy.entries() {
        let field = join(table, &entry.name);
        let kind = match entry.name.as_str() {
            "key" => {
                key(&field, &entry.node, found);
                continue;
            }
            "cost" | "tier" => {
                of_table(&field, &entry.node, found);
                continue;
            }
            "strategy" if entry.node.text() == Some("in_flight") => Kind::End,
            "in_flight" => Kind::End,
            "charge_when" => Kind::Response,
            "charge_after" | "refund_unanswered" if is_on(&entry.node) => Kind::Response,
            "reserve" => Kind::Usage,
            "tiers" if policy.get("tier").is_none() => Kind::Tier,
            _ => continue,
        };
        push(kind, field, &entry.node, found);
    }
    lists(table, policy, found);
}

/// A key, alone or in another one.
fn key(field: &str, node: &Node, found: &mut Vec<Need>) {
    match &node.value {
        Value::String(name) if name == "route" => push(Kind::RouteKey, field.to_owned(), node, found),
        Value::String(name) if name == "bearer" => {
            push(Kind::Header(header::AUTHORIZATION), field.to_owned(), node, found);
        }
        Value::List(parts) => parts.iter().for_each(|part| key(field, part, found)),
        Value::Map(fields) => {
            for entry in fields {
                match entry.name.as_str() {
                    "extension" => push(Kind::Extension, field.to_owned(), &entry.node, found),
                    "header" => named(Kind::Header, join(field, "header"), &entry.node, found),
                    "cookie" => push(Kind::Header(header::COOKIE), join(field, "cookie"), &entry.node, found),
                    "all" => key(field, &entry.node, found),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The `header` of a table.
fn of_table(table: &str, node: &Node, found: &mut Vec<Need>) {
    if let Some(entry) = node.get("header") {
        named(Kind::Header, join(table, "header"), &entry.node, found);
    }
}

/// A header that is named by its value.
fn named(kind: fn(HeaderName) -> Kind, field: String, node: &Node, found: &mut Vec<Need>) {
    if let Some(Ok(name)) = node.text().map(str::parse::<HeaderName>) {
        push(kind(name), field, node, found);
    }
}

fn lists(table: &str, node: &Node, found: &mut Vec<Need>) {
    for list in
        node.entries().iter().filter(|entry| ["except", "deny", "only"].contains(&entry.name.as_str()))
    {
        let field = join(&join(table, &list.name), "route");
        for route in list.node.each().iter().filter_map(|requests| requests.get("route")) {
            push(Kind::RouteList, field.clone(), &route.node, found);
        }
    }
}

fn push(kind: Kind, field: String, node: &Node, found: &mut Vec<Need>) {
    found.push(Need { kind, field, span: node.span });
}

/// Whether an option is not switched off.
fn is_on(node: &Node) -> bool {
    node.value != Value::Bool(false)
}
