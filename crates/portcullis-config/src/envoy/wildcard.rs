//! Wildcards: patterns in which `*` stands for any text.

/// A composite key with at least one `*`.
#[derive(Debug)]
pub(super) struct Wildcard {
    pub(super) pattern: String,
}

impl Wildcard {
    /// The wildcard of a composite key. `None` if it has no `*`.
    pub(super) fn new(composite: &str) -> Option<Self> {
        composite.contains('*').then(|| Self { pattern: composite.to_owned() })
    }

    /// Whether a text matches: it begins and ends as the pattern does, and has the parts between two `*` in their order.
    ///
    /// A pattern that matches another pattern, taken literally, matches all that the other one matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((start, rest)) = self.pattern.split_once('*') else {
            return self.pattern == text;
        };
        let (middle, end) = rest.rsplit_once('*').map_or((None, rest), |(middle, end)| (Some(middle), end));
        let Some(mut text) = text.strip_prefix(start).and_then(|text| text.strip_suffix(end)) else {
            return false;
        };
        for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
            match text.find(part) {
                Some(at) => text = &text[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}
