//! Warnings where a descriptor with a value takes the place of the one for all values, and limits less.
//!
//! What matched an entry is not given up if the next entry is not found below it, so that a request for this value is not limited
//! although it would be with any other value.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Level, Node};
use crate::envoy::excerpt;
use crate::envoy::findings::Findings;
use crate::source::Span;

/// A descriptor with a value.
pub(super) struct Valued {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) key: String,
    pub(super) composite: String,
}

/// Compares the descriptors with values to the one with the same key and no value. One that has nothing at all is an exemption, for
/// which there is another warning.
pub(super) fn check(level: &Level, valued: &[Valued], findings: &mut Findings) {
    let mut limited_keys: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for Valued { path, span, key, composite } in valued {
        let (Some(default), Some(specific)) = (level.nodes.get(key), level.nodes.get(composite)) else {
            continue;
        };
        if default.key != *key || (specific.limit.is_none() && specific.level.nodes.is_empty()) {
            continue;
        }
        let limited = limited_keys.entry(key).or_insert_with(|| {
            default
                .level
                .nodes
                .values()
                .filter(|child| limits(child))
                .map(|child| child.key.as_str())
                .collect()
        });
        let own: HashSet<&str> = specific.level.nodes.values().map(|child| child.key.as_str()).collect();
        if let Some(missing) = limited.iter().find(|child| !own.contains(*child)) {
            let message = format!(
                "`{}` takes the place of `{}`, and has no descriptor `{}` as that has: requests with this value and `{}` are \
                     not limited",
                excerpt(composite),
                excerpt(key),
                excerpt(missing),
                excerpt(missing)
            );
            findings.warning(path, *span, message).help("repeat the nested descriptor here");
        }
        if default.limit.is_some() && specific.limit.is_none() {
            let message = format!(
                "`{}` takes the place of `{}`, and has no `rate_limit` as that has: requests with this value alone are not \
                     limited",
                excerpt(composite),
                excerpt(key)
            );
            findings
                .warning(path, *span, message)
                .help("add a `rate_limit`; write `unlimited: true` in it if the requests are to be exempt");
        }
    }
}

/// Whether the descriptor or one below it has a limit.
fn limits(node: &Node) -> bool {
    node.limit.is_some() || node.level.nodes.values().any(limits)
}
