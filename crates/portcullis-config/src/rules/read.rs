//! Reads the tables of the documents of a load.

mod charge;
mod clients;
mod cost;
mod key;
mod layer;
mod lists;
mod lock_out;
mod matching;
mod mode;
mod policy;
mod refusals;
mod registered;
mod tiers;
mod usage;
mod values;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use http::HeaderName;
use portcullis_tower::ClientIp;

use super::Rules;
use super::options::LayerOptions;
use super::rule::Rule;
use crate::fields::{Fields, Findings, entries, join};
use crate::hooks::Hooks;
use crate::source::{Sources, Span};
use crate::tables::ROOT;
use crate::tree::{Node, Value};

/// What all readers share.
pub(super) struct Reader<'a> {
    pub(super) findings: &'a Findings,
    pub(super) sources: &'a Sources,
    pub(super) hooks: &'a Hooks,
    pub(super) clients: ClientIp,
    pub(super) shares_places: bool,
    /// The headers that are believed of named proxies.
    pub(super) trusted: RefCell<HashSet<HeaderName>>,
}

/// What the documents say.
#[derive(Default)]
pub(super) struct Read<'a> {
    /// With errors among the findings, some have a part that stands for what is not known.
    pub(super) rules: Vec<Rule>,
    pub(super) options: LayerOptions,
    /// The table `[layer]`.
    pub(super) layer: Option<&'a Node>,
}

impl<'a> Reader<'a> {
    pub(super) fn documents(&mut self, documents: &'a [Node]) -> Read<'a> {
        let tables: Vec<_> =
            documents.iter().filter_map(|node| Fields::of(node, "", &ROOT, self.findings)).collect();
        if let Some((clients, shares_places)) = self.clients(&tables) {
            (self.clients, self.shares_places) = (clients, shares_places);
        }
        let layer = self.once(&tables, "layer");
        let options = layer.map(|node| self.layer_options(node)).unwrap_or_default();
        let mut rules = Vec::new();
        let mut seen = HashMap::new();
        for node in tables.iter().filter_map(|fields| fields.node("policy")) {
            self.policies(node, &mut seen, &mut rules);
        }
        Read { rules, options, layer }
    }

    /// A table that one of the documents may have.
    fn once(&self, tables: &[Fields<'a>], field: &'static str) -> Option<&'a Node> {
        let mut found: Option<&Node> = None;
        for fields in tables {
            let Some(node) = fields.node(field) else { continue };
            match found {
                None => found = Some(node),
                Some(first) => {
                    let place = self.sources.location(first.span);
                    self.findings
                        .error(field, node.span, format!("[{field}] is in {place} already"))
                        .help("write the table in one of the files");
                }
            }
        }
        found
    }

    fn policies(&self, node: &'a Node, seen: &mut HashMap<String, Span>, rules: &mut Vec<Rule>) {
        if let Value::List(list) = &node.value {
            let named = list.first().and_then(|one| one.get("name")).and_then(|entry| entry.node.text());
            let example = join("policy", named.unwrap_or("search"));
            self.findings
                .error("policy", node.span, "expected a table, not a list")
                .help(format!("write `[{example}]`, and leave out `name`"));
            return;
        }
        for entry in entries(node, "policy", self.findings).unwrap_or_default() {
            let path = join("policy", &entry.name);
            if rules.len() >= Rules::MAX {
                let message = format!("there are more than {} policies", Rules::MAX);
                self.findings.error(path, entry.name_span, message);
                return;
            }
            for rule in self.policy(entry, &path) {
                let name = rule.name().as_str().to_owned();
                if let Some(first) = seen.get(&name) {
                    let message = format!("policy {name} is in {} already", self.sources.location(*first));
                    self.findings
                        .error(&*path, entry.name_span, message)
                        .help("give one of the two another name");
                } else {
                    seen.insert(name, entry.name_span);
                }
                rules.push(rule);
            }
        }
    }
}

/// The warning about a header by which a request chooses what it is counted as.
fn chosen_by_client(header: &HeaderName) -> String {
    format!("a client may write anything into header {header}, unless a proxy in front overwrites it")
}
