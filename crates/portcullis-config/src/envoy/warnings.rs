//! Warnings where a file loads, and does not limit as its author probably expects.

use super::document::Descriptor;
use super::excerpt;
use super::fields::{Spanned, join};
use super::findings::Findings;
use crate::source::Span;

/// Warns about a descriptor that limits nothing, and about flags that have no effect without a limit.
pub(super) fn without_effect(read: &Descriptor, composite: &str, findings: &mut Findings) {
    if read.has_rate_limit {
        return;
    }
    if read.descriptors.is_empty() {
        let message = format!(
            "the descriptor `{}` has no `rate_limit` and no descriptors: it never limits",
            excerpt(composite)
        );
        findings
            .warning(&read.path, read.span, message)
            .help("add a `rate_limit`; write `unlimited: true` in it if the requests are to be exempt");
    }
    for (name, span) in [
        ("shadow_mode", read.shadow_mode),
        ("quota_mode", read.quota_mode),
        ("detailed_metric", read.detailed_metric),
    ] {
        if let Some(span) = span {
            let message = format!("`{name}` has no effect without a `rate_limit` in the same descriptor");
            findings
                .warning(&join(&read.path, name), span, message)
                .help("it does not apply to nested descriptors: repeat it there");
        }
    }
}

/// Warns about `*` in a key, which is a wildcard over key and value together.
pub(super) fn wildcard_in_key(read: &Descriptor, key: &Spanned<String>, findings: &mut Findings) {
    if key.value.contains('*') {
        let message = format!(
            "`*` in the key `{}` is a wildcard over the key and the value of an entry, joined by `_`",
            excerpt(&key.value)
        );
        findings
            .warning(&join(&read.path, "key"), key.span, message)
            .help("write the whole key, and the wildcard in `value`");
    }
}

/// Warns about a descriptor that no entry reaches, because a wildcard in front of it matches all that it matches.
pub(super) fn unreachable(path: &str, span: Span, composite: &str, wildcard: &str, findings: &mut Findings) {
    let message = format!(
        "`{}` never applies: the wildcard `{}` matches the same entries and precedes it",
        excerpt(composite),
        excerpt(wildcard)
    );
    findings.warning(path, span, message).help("put the more specific one first, or remove one of the two");
}
