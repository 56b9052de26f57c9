//! The descriptors of all files, by domain and level.

mod precedence;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::document::{Descriptor, Document};
use super::fields::{Spanned, join};
use super::findings::Findings;
use super::limit::{Limit, NoPolicy};
use super::wildcard::Wildcard;
use super::{excerpt, names, warnings};
use crate::source::Span;
use precedence::Valued;

/// The descriptors that one level of entries is matched with.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// By the composite key: the key alone, or key and value joined by `_`. Also those with wildcards.
    pub(super) nodes: HashMap<String, Node>,
    /// In the order of the files: the first match counts.
    pub(super) wildcards: Vec<Wildcard>,
}

/// A descriptor.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: String,
    /// An index of [`Table::limits`].
    pub(super) limit: Option<usize>,
    pub(super) level: Level,
    pub(super) value_to_metric: bool,
    pub(super) share_threshold: bool,
}

/// All domains.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) domains: HashMap<String, Level>,
    pub(super) limits: Vec<Limit>,
    pub(super) descriptors: usize,
}

/// Adds files to a table.
pub(super) struct Builder<'a> {
    pub(super) findings: &'a mut Findings,
    table: Table,
    /// The parts of each limit's key, which are unambiguous.
    paths: Vec<Vec<String>>,
    names: HashSet<(String, String)>,
    replaced: BTreeMap<(String, String), (String, Span)>,
    full: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(findings: &'a mut Findings) -> Self {
        Self {
            findings,
            table: Table::default(),
            paths: Vec::new(),
            names: HashSet::new(),
            replaced: BTreeMap::new(),
            full: false,
        }
    }

    /// Adds a file. A domain that another file has is a mistake unless domains are merged.
    pub(super) fn add(&mut self, document: Document, merge: bool) {
        let Some(Spanned { value: domain, span }) = document.domain else {
            // The descriptors are checked by themselves.
            let mut level = Level::default();
            self.level(&mut level, document.descriptors, &mut Vec::new());
            return;
        };
        let level = self.table.domains.remove(&domain);
        if level.is_some() && !merge {
            let message = format!("the domain `{}` is in another file, too", excerpt(&domain));
            self.findings
                .error("domain", span, message)
                .help("use another domain, or load the files with merged domains");
        }
        let mut level = level.unwrap_or_default();
        self.level(&mut level, document.descriptors, &mut vec![domain.clone()]);
        self.table.domains.insert(domain, level);
    }

    /// The table, with the policies of all limits.
    pub(super) fn finish(self) -> Table {
        let Self { findings, mut table, paths, names, replaced, .. } = self;
        for ((domain, name), (field, span)) in replaced {
            let message =
                format!("no limit of the domain `{}` has the name `{}`", excerpt(&domain), excerpt(&name));
            if !names.contains(&(domain, name)) {
                findings
                    .warning(&field, span, message)
                    .help("nothing is replaced: names are compared literally and by case");
            }
        }
        let keys: Vec<_> = table.limits.iter().map(|limit| limit.key.as_str()).collect();
        let policy_names = names::assign(&keys, &paths);
        for (limit, name) in table.limits.iter_mut().zip(policy_names) {
            limit.policy = super::limit::policy(&name, limit.requests_per_unit, limit.unit);
            limit.policy_name = name;
        }
        table
    }

    fn level(&mut self, level: &mut Level, descriptors: Vec<Descriptor>, path: &mut Vec<String>) {
        let (mut without_value, mut valued) = (Vec::new(), Vec::new());
        for descriptor in descriptors {
            if let Some(Spanned { value: key, .. }) = descriptor.key.clone() {
                let (path, span) = (descriptor.path.clone(), descriptor.span);
                match &descriptor.value {
                    None => without_value.push((path, span, key)),
                    Some(value) => {
                        let composite = composite(&key, Some(value));
                        valued.push(Valued { path, span, key, composite });
                    }
                }
            }
            self.table.descriptors += 1;
            if self.table.descriptors > super::MAX_DESCRIPTORS {
                if !self.full {
                    self.full = true;
                    let message = format!("there are more than {} descriptors", super::MAX_DESCRIPTORS);
                    self.findings
                        .error(&descriptor.path, descriptor.span, message)
                        .help("use fewer, or wildcards");
                }
                return;
            }
            self.descriptor(level, descriptor, path);
        }
        precedence::check(level, &valued, self.findings);
        // A wildcard for all values precedes a descriptor without a value, wherever the two are in the file.
        for (field, span, key) in without_value {
            let all = format!("{key}_*");
            if let Some(wildcard) = level.wildcards.iter().find(|wildcard| wildcard.matches(&all))
                && !key.contains('*')
            {
                warnings::unreachable(&field, span, &key, &wildcard.pattern, self.findings);
            }
        }
    }

    fn descriptor(&mut self, level: &mut Level, mut read: Descriptor, path: &mut Vec<String>) {
        let Some(key) = read.key.take() else {
            self.level(&mut Level::default(), read.descriptors, path);
            return;
        };
        let composite = composite(&key.value, read.value.as_ref());
        warnings::without_effect(&read, &composite, self.findings);
        warnings::wildcard_in_key(&read, &key, self.findings);
        if level.nodes.contains_key(&composite) {
            let message = format!("the descriptor `{}` is there twice", excerpt(&composite));
            let help = "key and value, joined by `_`, differ among the descriptors of a level: merge the two";
            self.findings.error(&join(&read.path, "key"), key.span, message).help(help);
        }
        let wildcard = Wildcard::new(&composite);
        if wildcard.is_some()
            && let Some(earlier) = level.wildcards.iter().find(|earlier| earlier.matches(&composite))
        {
            warnings::unreachable(&read.path, read.span, &composite, &earlier.pattern, self.findings);
        }
        if let Some(span) = read.share_threshold
            && wildcard.is_none()
        {
            let message =
                format!("`share_threshold` needs a wildcard, and `{}` has none", excerpt(&composite));
            let help = "end `value` with `*`, or remove the field";
            self.findings.error(&join(&read.path, "share_threshold"), span, message).help(help);
        }
        path.push(composite.clone());
        let limit = self.limit(&mut read, path);
        let mut node = Node {
            key: key.value,
            limit,
            level: Level::default(),
            value_to_metric: read.value_to_metric,
            share_threshold: read.share_threshold.is_some(),
        };
        self.level(&mut node.level, read.descriptors, path);
        path.pop();
        if let Some(wildcard) = wildcard {
            if level.wildcards.len() == super::MAX_WILDCARDS {
                let message = format!("a level has more than {} wildcards", super::MAX_WILDCARDS);
                let help = "each entry of a request is compared with all of them: use fewer";
                self.findings.error(&read.path, read.span, message).help(help);
            }
            if level.wildcards.len() < super::MAX_WILDCARDS {
                level.wildcards.push(wildcard);
            }
        }
        level.nodes.entry(composite).or_insert(node);
    }

    fn limit(&mut self, read: &mut Descriptor, path: &[String]) -> Option<usize> {
        let limit = read.rate_limit.take()?;
        let domain = path.first()?;
        if let Some(name) = &limit.name {
            self.names.insert((domain.clone(), name.clone()));
        }
        for replaced in &limit.replaces {
            let field = join(&read.path, "rate_limit.replaces");
            self.replaced.entry((domain.clone(), replaced.value.clone())).or_insert((field, replaced.span));
        }
        self.table.limits.push(Limit {
            key: path.join("."),
            // Both are set when all limits are known.
            policy: Err(NoPolicy::Unlimited),
            policy_name: names::UNNAMED,
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
            shadow_mode: read.shadow_mode.is_some(),
            quota_mode: read.quota_mode.is_some(),
            detailed_metric: read.detailed_metric.is_some(),
            name: limit.name,
            replaces: limit.replaces.into_iter().map(|replaced| replaced.value).collect(),
            metadata: std::mem::take(&mut read.metadata),
        });
        self.paths.push(path.to_vec());
        Some(self.table.limits.len() - 1)
    }
}

/// What entries are compared with: the key, or key and value.
fn composite(key: &str, value: Option<&Spanned<String>>) -> String {
    value.map_or_else(|| key.to_owned(), |value| format!("{key}_{}", value.value))
}
