//! Finds the limit of a descriptor.

use portcullis_core::KeyWriter;

use super::limit::Limit;
use super::table::{Level, Node, Table};

/// A limit that applies to a descriptor of a request.
///
/// Made by [`Descriptors::limit`](super::Descriptors::limit).
#[derive(Clone, Debug)]
pub struct Match<'a> {
    limit: &'a Limit,
    domain: &'a str,
    descriptor: &'a [(&'a str, &'a str)],
    /// How each entry of the descriptor was found.
    steps: Vec<Step<'a>>,
}

/// How an entry was found.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// By its key and its value.
    Value,
    /// By a wildcard.
    Wildcard { pattern: &'a str, shared: bool, value_to_metric: bool },
    /// By its key alone.
    Key { value_to_metric: bool },
}

/// The limit of a descriptor. At each level key and value are tried first, then the wildcards in the order of the files, then the key
/// alone; what was found is not given up if a later entry is not found below it.
pub(super) fn find<'a>(
    table: &'a Table,
    domain: &'a str,
    descriptor: &'a [(&'a str, &'a str)],
) -> Option<Match<'a>> {
    let mut level = table.domains.get(domain)?;
    let (last, parents) = descriptor.split_last()?;
    let mut steps = Vec::with_capacity(descriptor.len().min(super::MAX_DEPTH));
    let mut composite = String::new();
    for entry in parents {
        let (node, step) = level.find(entry, &mut composite)?;
        steps.push(step);
        level = &node.level;
    }
    let (node, step) = level.find(last, &mut composite)?;
    steps.push(step);
    let limit = table.limits.get(node.limit?)?;
    Some(Match { limit, domain, descriptor, steps })
}

impl Level {
    fn find<'a>(
        &'a self,
        (key, value): &(&str, &str),
        composite: &mut String,
    ) -> Option<(&'a Node, Step<'a>)> {
        composite.clear();
        composite.extend([*key, "_", *value]);
        if let Some(node) = self.nodes.get(composite.as_str()) {
            return Some((node, Step::Value));
        }
        if let Some(wildcard) = self.wildcards.iter().find(|wildcard| wildcard.matches(composite)) {
            let pattern = &*wildcard.pattern;
            let node = self.nodes.get(pattern)?;
            let step = Step::Wildcard {
                pattern,
                shared: node.share_threshold,
                value_to_metric: node.value_to_metric,
            };
            return Some((node, step));
        }
        let node = self.nodes.get(*key)?;
        Some((node, Step::Key { value_to_metric: node.value_to_metric }))
    }
}

impl<'a> Step<'a> {
    /// The wildcard that takes the place of the value, because all values that match share one limit.
    fn shared(self, key: &str) -> Option<&'a str> {
        match self {
            Step::Wildcard { pattern, shared: true, .. } => Some(value_of(pattern, key)),
            _ => None,
        }
    }

    /// The value in the key for metrics.
    fn value_in_metric(self, key: &str, value: &'a str) -> &'a str {
        let shared = self.shared(key).filter(|pattern| !pattern.is_empty());
        match (self, shared) {
            (_, Some(pattern)) => pattern,
            (Step::Wildcard { pattern, value_to_metric: false, .. }, None) => value_of(pattern, key),
            (Step::Key { value_to_metric: false }, None) => "",
            (Step::Value | Step::Wildcard { .. } | Step::Key { .. }, None) => value,
        }
    }
}

/// The part of a wildcard for the value. The whole wildcard if its key has a `*`.
fn value_of<'a>(pattern: &'a str, key: &str) -> &'a str {
    pattern.strip_prefix(key).and_then(|rest| rest.strip_prefix('_')).unwrap_or(pattern)
}

impl<'a> Match<'a> {
    /// The limit.
    pub const fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// The domain of the request.
    pub const fn domain(&self) -> &'a str {
        self.domain
    }

    /// The entries of the descriptor.
    pub const fn descriptor(&self) -> &'a [(&'a str, &'a str)] {
        self.descriptor
    }

    /// The key of this request for metrics, as Envoy's service has it: the domain and the key of each entry, joined by `.`.
    ///
    /// After `_` follows the value, if the file has the value, or `value_to_metric` in this place, or `detailed_metric` in
    /// the descriptor of the limit; for a wildcard without them the wildcard. With `share_threshold` it is always the wildcard.
    ///
    /// The values are the client's: as a label of metrics such a key has no bound.
    pub fn full_key(&self) -> String {
        let detailed = self.limit.detailed_metric();
        let any_shared = self.entries().any(|((key, _), step)| step.shared(key).is_some());
        let mut full = self.domain.to_owned();
        for ((key, value), step) in self.entries() {
            let shared = step.shared(key).filter(|pattern| !pattern.is_empty());
            let value = if detailed { shared.unwrap_or(value) } else { step.value_in_metric(key, value) };
            full.extend([".", key]);
            if !value.is_empty() || (detailed && !any_shared) {
                full.extend(["_", value]);
            }
        }
        full
    }

    /// Writes the identity that the limit counts: the domain and the whole descriptor, in one part.
    ///
    /// Two descriptors have the same key only if they have the same entries, or if they differ in values that share a
    /// threshold. An identity whose values are all in the file is [shared](KeyWriter::shared_part) by clients.
    pub fn write_key(&self, writer: &mut KeyWriter<'_>) {
        let identity = self.identity();
        let own = self.entries().any(|((key, _), step)| match step {
            Step::Value => false,
            Step::Wildcard { .. } => step.shared(key).is_none(),
            Step::Key { .. } => true,
        });
        if own {
            writer.part("envoy", &identity);
        } else {
            writer.shared_part("envoy", &identity);
        }
    }

    /// The bytes that [`write_key`](Self::write_key) writes. Values that are long make more of them than a key
    /// may have, which is 8 192: a caller that takes such values writes a digest of these bytes instead.
    pub fn identity(&self) -> Vec<u8> {
        let mut identity = Vec::with_capacity(64);
        append(&mut identity, self.domain);
        for ((key, value), step) in self.entries() {
            append(&mut identity, key);
            let shared = step.shared(key).filter(|pattern| !pattern.is_empty());
            append(&mut identity, shared.unwrap_or(value));
        }
        identity
    }

    fn entries(&self) -> impl Iterator<Item = ((&'a str, &'a str), Step<'a>)> {
        self.descriptor.iter().copied().zip(self.steps.iter().copied())
    }
}

/// Appends a text and its length, so that different texts stay different.
fn append(bytes: &mut Vec<u8>, text: &str) {
    let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}
