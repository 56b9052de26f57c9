//! Writes the page of all fields.
//!
//! With `UPDATE_REFERENCE` in the environment the test writes the page instead of comparing it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::super::{Field, Required, ValueKind};
use super::tables;

#[test]
fn reference_page_has_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules-reference.md");
    let page = page();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(path, page).unwrap();
    } else if fs::read_to_string(path).unwrap_or_default() != page {
        panic!(
            "docs/rules-reference.md is not what the tables say: set UPDATE_REFERENCE to write it\n{page}"
        );
    }
}

#[test]
fn each_note_is_about_a_field() {
    for (name, _) in NOTES {
        let (table, field) = name.split_once('.').unwrap();
        let known = tables().iter().any(|(_, known)| known.name == table && known.field(field).is_some());
        assert!(known, "{name}");
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (_, table) in tables() {
        write!(page, "\n## `{}`\n\n{}", table.name, table.about).unwrap();
        page += match (table.least, table.most) {
            (1, 1) => " It has exactly one of these fields.",
            (1, _) => " It has at least one of these fields.",
            _ => "",
        };
        page += "\n\n| field | value | default | what it does |\n|---|---|---|---|\n";
        for field in table.fields {
            let note = note(table.name, field.name).map(|note| format!(" {note}")).unwrap_or_default();
            writeln!(
                page,
                "| `{}` | {} | {} | {}{note} |",
                field.name,
                value(&field.kind),
                default(field),
                field.about
            )
            .unwrap();
        }
    }
    let mut links: Vec<_> =
        page.split("][").skip(1).filter_map(|rest| Some(rest.split_once(']')?.0.to_owned())).collect();
    links.sort();
    links.dedup();
    page.push('\n');
    for link in links {
        writeln!(page, "[{link}]: {link}").unwrap();
    }
    page
}

fn note(table: &str, field: &str) -> Option<&'static str> {
    NOTES.iter().find(|(name, _)| name.split_once('.') == Some((table, field))).map(|(_, note)| *note)
}

fn default(field: &Field) -> String {
    match field.default {
        _ if field.required != Required::No => "required".to_owned(),
        Some(json) if serde_json::from_str::<serde_json::Value>(json).is_ok() => format!("`{json}`"),
        Some(text) => format!("`\"{text}\"`"),
        None => String::new(),
    }
}

fn value(kind: &ValueKind) -> String {
    let all =
        |names: &[&str]| names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
    match kind {
        ValueKind::Text => "a text".to_owned(),
        ValueKind::Form(_, "10/s burst 20") => "a quota".to_owned(),
        ValueKind::Form(_, "1m 30s") => "a duration".to_owned(),
        ValueKind::Form(_, example) => format!("such as `\"{example}\"`"),
        ValueKind::Bool => "`true` or `false`".to_owned(),
        ValueKind::Integer(0, u64::MAX) => "a whole number".to_owned(),
        ValueKind::Integer(least, u64::MAX) => format!("a whole number, at least {least}"),
        ValueKind::Integer(least, most) => format!("a whole number, {least} to {most}"),
        ValueKind::Number(least, most) => format!("a number, {least} to {most}"),
        ValueKind::Choice(names) => all(names),
        ValueKind::FieldOf(table) => format!("names of fields of a [`{0}`](#{0})", table.name),
        ValueKind::Nested(table) => format!("a table [`{0}`](#{0})", table.name),
        ValueKind::Named(_, kind) => value(kind),
        ValueKind::List(ValueKind::Named(name, _), ..) => format!("a list of values as of `{name}`"),
        ValueKind::List(each, least, most) if least == most => format!("a list of {least}: {}", value(each)),
        ValueKind::List(each, ..) => format!("a list: {}", value(each)),
        ValueKind::OneOrMore(one) => format!("{}, or a list of such", value(one)),
        ValueKind::Map(each) => format!("a table with names of your own, each with {}", value(each)),
        ValueKind::AnyOf(kinds) => kinds.iter().map(value).collect::<Vec<_>>().join(", or "),
    }
}

const INTRODUCTION: &str = "\
# Fields of rules

What each field of [rules in files][rules.md] may be, and what it does. A test keeps this page equal to the tables by which
files are read. A quota is a text such as `\"10/s burst 20\"`, a duration one such as `\"500ms\"`, `\"1m 30s\"` or `\"1h\"`.
";

/// What the guides say of fields.
const NOTES: [(&str, &str); 39] = [
    ("file.include", "See [variables and includes][rules.md#variables-and-includes]."),
    ("file.remote", "See [rules for a fleet][rules.md#rules-for-a-fleet]."),
    ("file.policy", "`[policy.search]` is the policy `search`."),
    ("client_ip.header", "See [client addresses][identity.md#how-the-client-address-is-determined]."),
    ("client_ip.or_peer", "See [client addresses][identity.md#how-the-client-address-is-determined]."),
    ("client_ip.share_places", "See [shares of callers][load-shedding.md#shares-of-callers]."),
    ("layer.headers", "See [headers][responses.md#headers]."),
    ("layer.limit_preflights", "See [preflights][responses.md#preflights]."),
    ("layer.discard_bodies", "See [bodies][responses.md#the-bodies-of-rejected-requests]."),
    ("layer.except", "See [exemptions and lists][rules.md#exemptions-and-lists]."),
    ("layer.reject_with", "See [custom rejections][responses.md#custom-rejections]."),
    ("layer.show_generation", "The response has it in the same header."),
    ("policy.quota", "`\"5/10s\"` and `\"1000/day\"` are quotas, too."),
    ("policy.limit", "`\"in_flight\"` and `\"calendar_window\"` have `limit` alone."),
    ("policy.windows", "Needs the feature `calendar`."),
    ("policy.lease", "See [leases][leases.md]."),
    ("policy.on_store_failure", "A share among 4 instances is `{ local = 4 }`."),
    (
        "policy.mode",
        "A share is `\"10%\"` or `{ percent = 10 }`; the others are in shadow. `\"shadow 10%\"` is in shadow for that share, and off for the others. See [trying out][responses.md#trying-out].",
    ),
    ("policy.except", "See [exemptions and lists][rules.md#exemptions-and-lists]."),
    ("policy.key", "See [keys][rules.md#keys]."),
    ("policy.match", "See [matching][rules.md#matching]."),
    ("policy.tiers", "`{ pro = \"100/s burst 200\" }`. See [tiers][rules.md#tiers]."),
    (
        "policy.cost",
        "`{ header = \"x-cost\", max = 100 }`, `{ path = { \"/export\" = 100 } }` or `{ function = \"name\" }`.",
    ),
    ("policy.wait", "See [waiting][algorithms.md#waiting-instead-of-rejecting]."),
    ("policy.debt", "See [a larger debt][recipes.md#a-larger-debt]."),
    ("policy.caller_quotas", "`[\"1/s\", \"100/s\"]`."),
    (
        "policy.quota_lookup",
        "Its quotas are within `caller_quotas`. See [quotas from a database][recipes.md#quotas-from-a-database].",
    ),
    ("policy.overrides", "See [lock-outs and grants][recipes.md#lock-outs-and-grants]."),
    ("policy.lock_out", "`{ after = 5, within = \"1m\", block_for = \"1m\", up_to = \"1h\" }`."),
    (
        "policy.in_flight",
        "`{ limit = 4, lease = \"30s\" }`. See [requests in flight][recipes.md#requests-in-flight].",
    ),
    (
        "policy.charge_when",
        "`{ status = [401, \"5xx\"] }`. See [charges by outcome][responses.md#charges-by-outcome].",
    ),
    ("policy.reserve", "See [an LLM stream][recipes.md#an-llm-stream]."),
    ("policy.usage", "`\"openai\"` or `{ pointer = \"/usage/tokens\" }`. Needs the feature `usage`."),
    ("policy.charge_after", "Beside `charge_when`."),
    ("policy.reject_with", "See [custom rejections][responses.md#custom-rejections]."),
    ("policy.report", "See [usage that is reported][envoy.md#usage-that-is-reported-after-the-response]."),
    ("policy.warn_at", "See [soft limits][responses.md#soft-limits]."),
    ("requests.prefix", "Without a slash at the end."),
    ("tier.header", "Of several lines the smallest limit and burst count."),
];
