//! A document that changes some fields of the policies of the files.

mod settings;
#[cfg(all(test, feature = "signed"))]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use portcullis_core::Quota;

use crate::findings::Findings;
use crate::tree::{Entry, Node, Value};

pub use settings::RemoteSettings;
pub(crate) use settings::take;

/// The fields that a document may change where the files allow nothing else.
pub(crate) const ALLOWED: [&str; 3] = ["limit", "burst", "mode"];

/// The text of a document, in JSON, which replaces fields of policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Overlay {
    /// What findings call it.
    pub(crate) name: PathBuf,
    pub(crate) text: Arc<str>,
    /// The name of the document.
    pub(crate) key: String,
    /// The public key that it is signed for.
    pub(crate) verify_key: String,
    pub(crate) number: u64,
}

/// Replaces fields of the policies in `documents`. What the overlay may not change is a finding.
pub(crate) fn apply(documents: &mut [Node], overlay: &Node, allowed: &[String], findings: &Findings) {
    let Value::Map(entries) = &overlay.value else {
        findings.error("", overlay.span, "a document of remote rules is a table");
        return;
    };
    for entry in entries {
        if entry.name != "policy" {
            let message = "remote rules change policies and nothing else";
            findings.error(&*entry.name, entry.name_span, message).help("set it in the local file");
            continue;
        }
        let Value::Map(policies) = &entry.node.value else {
            findings.error(
                "policy",
                entry.node.span,
                format!("expected a table, not {}", entry.node.value.kind()),
            );
            continue;
        };
        for policy in policies {
            let path = format!("policy.{}", policy.name);
            if let Some(base) = find(documents, &policy.name) {
                change(base, policy, &path, allowed, findings);
            } else {
                let message = "remote rules name a policy that the local file does not have: add it there, or leave it out";
                findings.error(path, policy.name_span, message);
            }
        }
    }
}

/// The table of a policy.
fn find<'a>(documents: &'a mut [Node], name: &str) -> Option<&'a mut Vec<Entry>> {
    documents.iter_mut().find_map(|document| {
        let policies = entry(fields(document)?, "policy")?;
        fields(&mut entry(fields(&mut policies.node)?, name)?.node)
    })
}

fn fields(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

fn entry<'a>(entries: &'a mut [Entry], name: &str) -> Option<&'a mut Entry> {
    entries.iter_mut().find(|entry| entry.name == name)
}

/// Replaces the fields of one policy.
fn change(base: &mut Vec<Entry>, policy: &Entry, path: &str, allowed: &[String], findings: &Findings) {
    let Value::Map(changes) = &policy.node.value else {
        findings.error(path, policy.node.span, format!("expected a table, not {}", policy.node.value.kind()));
        return;
    };
    let may = |field: &str| allowed.iter().any(|name| name == field);
    for changed in changes {
        let path = format!("{path}.{}", changed.name);
        let refused = |field: &str| {
            let message = format!("remote rules may not change `{field}`");
            let help =
                format!("they may change {}: see `remote.allow` in the local file", allowed.join(", "));
            findings.error(&*path, changed.name_span, message).help(help);
        };
        let field = changed.name.as_str();
        match field {
            "quota" if !may("quota") => {
                if let Some(field) = refused_in_quota(base, &changed.node, &may) {
                    refused(field);
                    continue;
                }
            }
            _ if !may(field) => {
                refused(field);
                continue;
            }
            "limit" | "burst" => {
                if let Err(message) = split_quota(base, field, &changed.node) {
                    findings.error(&*path, changed.node.span, message);
                    continue;
                }
            }
            _ => {}
        }
        if !matches!(field, "limit" | "burst") || entry(base, "quota").is_none() {
            match entry(base, field) {
                Some(entry) => entry.node = changed.node.clone(),
                None => base.push(changed.clone()),
            }
        }
    }
}

/// The first part of a quota that differs and may not. What is no quota is found when the policy is read.
fn refused_in_quota(base: &mut [Entry], changed: &Node, may: &impl Fn(&str) -> bool) -> Option<&'static str> {
    let (Some(base), Some(new)) = (quota(base), changed.text()) else { return Some("quota") };
    let Ok(new) = new.parse::<Quota>() else { return None };
    let parts = [
        ("period", base.period() != new.period()),
        ("limit", base.limit() != new.limit()),
        ("burst", base.explicit_burst() != new.explicit_burst()),
    ];
    parts.into_iter().find(|(field, differs)| *differs && !may(field)).map(|(field, _)| field)
}

/// Changes the limit or the burst of a policy whose quota is one text.
fn split_quota(base: &mut [Entry], field: &str, changed: &Node) -> Result<(), String> {
    let Some(before) = quota(base) else { return Ok(()) };
    let Value::Integer(units) = changed.value else {
        return Err(format!("expected a number, not {}", changed.value.kind()));
    };
    let units = u64::try_from(units).map_err(|_| format!("{units} is not a number of units"))?;
    let (limit, burst) = match field {
        "limit" => (units, before.explicit_burst()),
        _ => (before.limit(), Some(units)),
    };
    let quota = Quota::new(limit, before.period(), burst).map_err(|error| error.to_string())?;
    if let Some(entry) = entry(base, "quota") {
        entry.node = Node::new(changed.span, Value::String(quota.to_string()));
    }
    Ok(())
}

/// The quota of a policy, if it is one text.
fn quota(base: &mut [Entry]) -> Option<Quota> {
    entry(base, "quota")?.node.text()?.parse().ok()
}
