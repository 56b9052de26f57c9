//! Finds what the fields of files need.

use http::{HeaderName, header};

use super::{Kind, Need};
use crate::fields::join;
use crate::tables::{ROOT, Table, ValueKind};
use crate::tree::{Node, Value};

/// All that the documents of a load need.
pub(crate) fn needs(documents: &[Node]) -> Vec<Need> {
    let mut found = Vec::new();
    for document in documents {
        of_table(&ROOT, "", document, &mut found);
    }
    found
}

/// What a table needs, or a list of such tables.
fn of_table(table: &'static Table, path: &str, node: &Node, found: &mut Vec<Need>) {
    if let Value::List(list) = &node.value {
        return list.iter().for_each(|one| of_table(table, path, one, found));
    }
    for entry in node.entries() {
        let Some(field) = table.field(&entry.name) else { continue };
        // They are the key itself.
        let is_key = matches!(field.name, "all" | "extension");
        let path = if is_key { path.to_owned() } else { join(path, field.name) };
        of_field([table.name, field.name], &path, node, &entry.node, found);
        match field.kind.table() {
            Some(inner) if matches!(field.kind, ValueKind::Map(_)) => {
                for named in entry.node.entries() {
                    of_table(inner, &join(&path, &named.name), &named.node, found);
                }
            }
            Some(inner) => of_table(inner, &path, &entry.node, found),
            None => {}
        }
    }
}

/// What a field of a table needs.
fn of_field(field: [&str; 2], path: &str, table: &Node, node: &Node, found: &mut Vec<Need>) {
    let header = || node.text().and_then(|text| text.parse::<HeaderName>().ok());
    let is_given = |field| table.get(field).is_some_and(|entry| entry.node.value != Value::Null);
    let kind = match field {
        ["layer", "show_generation"] => {
            push(Kind::ShownHeader, path, node, found);
            header().map(Kind::AskingHeader)
        }
        ["layer", "grpc_status"] => Some(Kind::GrpcResponse),
        ["requests", "route"] => Some(Kind::RouteList),
        ["policy", "strategy"] if node.text() == Some("in_flight") => Some(Kind::End),
        ["policy", "in_flight"] => Some(Kind::End),
        ["policy", "charge_when"] => Some(Kind::Response),
        ["policy", "charge_after" | "refund_unanswered"] if is_on(node) => Some(Kind::Response),
        ["policy", "report"] if is_on(node) => Some(Kind::Report),
        ["policy", "reserve"] => Some(Kind::Usage { is_read: is_given("usage") }),
        ["policy", "usage"] => Some(Kind::ResponseBody),
        ["policy", "tiers"] if !is_given("tier") => Some(Kind::Tier),
        ["policy", "key"] | ["key_source", "all"] => return of_plain_keys(path, node, found),
        ["match" | "requests", "headers"] => {
            for entry in node.entries() {
                if let Ok(name) = entry.name.parse() {
                    push(Kind::Header(name), &join(path, &entry.name), &entry.node, found);
                }
            }
            None
        }
        [_, "trusted"] if is_on(node) => Some(Kind::NamedProxy),
        ["key_source", "extension"] => Some(Kind::Extension),
        ["key_source", "cookie"] => Some(Kind::Header(header::COOKIE)),
        ["client_ip" | "cost" | "tier" | "key_source", "header"] => header().map(Kind::Header),
        _ => None,
    };
    if let Some(kind) = kind {
        push(kind, path, node, found);
    }
}

/// What the keys that are a name need, in lists of keys as well.
fn of_plain_keys(path: &str, node: &Node, found: &mut Vec<Need>) {
    match &node.value {
        Value::String(name) if name == "route" => push(Kind::RouteKey, path, node, found),
        Value::String(name) if name == "bearer" => {
            push(Kind::Header(header::AUTHORIZATION), path, node, found);
        }
        Value::String(name) if name == "host" => push(Kind::Header(header::HOST), path, node, found),
        Value::List(parts) => parts.iter().for_each(|part| of_plain_keys(path, part, found)),
        _ => {}
    }
}

fn push(kind: Kind, path: &str, node: &Node, found: &mut Vec<Need>) {
    found.push(Need { kind, field: path.to_owned(), span: node.span });
}

/// Whether an option is not switched off.
fn is_on(node: &Node) -> bool {
    node.value != Value::Bool(false)
}
