//! Files as the text of a document: without includes, and without references to the environment.

use serde_json::{Map, Number};

use crate::diagnostic::Diagnostics;
use crate::findings::Findings;
use crate::load::{Loaded, Loader};
use crate::tree::{Node, Value};

/// Reads files with changes of policies, and returns them as one text in JSON for [`push`](super::push()): what they include is in it,
/// and all variables are replaced.
///
/// Whether an instance accepts the changes depends on its local file.
///
/// # Errors
///
/// What is wrong with the files. They may have policies and nothing else.
///
/// ```
/// use portcullis::rules::remote::resolve;
/// use portcullis::rules::{Format, Loader};
///
/// let changes = Loader::text("changes.toml", Format::Toml, "[policy.search]\nlimit = '${LIMIT}'\n")
///     .environment(|name| (name == "LIMIT").then(|| "50".to_owned()));
/// assert_eq!(resolve(&changes)?, r#"{"policy":{"search":{"limit":50}}}"#);
/// # Ok::<(), portcullis::rules::Diagnostics>(())
/// ```
pub fn resolve(loader: &Loader) -> Result<String, Diagnostics> {
    let Loaded { sources, documents, findings, remote, .. } = loader.read();
    let findings = Findings::new(findings);
    let mut policies = Map::new();
    for document in &documents {
        for entry in document.entries() {
            match &entry.node.value {
                Value::Map(tables) if entry.name == "policy" => {
                    for table in tables {
                        let value = json(&table.node, &findings);
                        if policies.insert(table.name.clone(), value).is_some() {
                            let path = format!("policy.{}", table.name);
                            findings.error(path, table.name_span, "this policy is in two files");
                        }
                    }
                }
                _ => {
                    let message = "a document of remote rules has policies and nothing else";
                    findings.error(&*entry.name, entry.name_span, message);
                }
            }
        }
    }
    if let (Some(_), Some(first)) = (remote, documents.first()) {
        let message = "a document of remote rules has policies and nothing else";
        findings.error("remote", first.span, message).help("`[remote]` belongs in the local file");
    }
    if findings.has_errors() {
        return Err(Diagnostics::new(sources, findings.into_list()));
    }
    Ok(serde_json::json!({ "policy": policies }).to_string())
}

fn json(node: &Node, findings: &Findings) -> serde_json::Value {
    let number = |number: Option<Number>| {
        number.map_or_else(
            || {
                findings.error("", node.span, "JSON has no such number");
                serde_json::Value::Null
            },
            serde_json::Value::Number,
        )
    };
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => number(Number::from_i128(*value)),
        Value::Float(value) => number(Number::from_f64(*value)),
        Value::String(text) if node.from_environment => {
            let plain = serde_json::from_str(text).ok();
            let is_plain = |value: &serde_json::Value| value.is_number() || value.is_boolean();
            plain.filter(is_plain).unwrap_or_else(|| text.clone().into())
        }
        Value::String(text) => text.clone().into(),
        Value::List(items) => items.iter().map(|item| json(item, findings)).collect(),
        Value::Map(entries) => {
            entries.iter().map(|entry| (entry.name.clone(), json(&entry.node, findings))).collect()
        }
    }
}
