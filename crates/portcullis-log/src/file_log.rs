//! What the log has about files of limits.

use std::collections::BTreeMap;

use crate::codes;

/// The texts of limits by their names, for the lines about a reload.
#[derive(Debug, Default)]
pub struct LimitTexts(BTreeMap<String, String>);

impl FromIterator<(String, String)> for LimitTexts {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl LimitTexts {
    /// Logs each limit that is new, changed or gone, in at most 100 lines. `what` says what a limit is, as in `a rule of the rate limiter`.
    ///
    /// A text has parts between commas. Those that a change leaves as they were are left out.
    pub fn log_changes(&self, before: &Self, what: &str) {
        let changes = self.changes(before);
        for (limit, before, now) in changes.iter().take(MAX_LINES) {
            match (before, now) {
                (Some(before), Some(now)) => {
                    let (before, now) = (without(before, now), without(now, before));
                    tracing::info!(limit, before, now, "{what} has changed");
                }
                (None, now) => tracing::info!(limit, now, "{what} is new"),
                (before, None) => tracing::info!(limit, before, "{what} is gone"),
            }
        }
        if let more @ 1.. = changes.len().saturating_sub(MAX_LINES) {
            tracing::info!(more, "more limits are new, changed or gone: they are not logged");
        }
    }

    fn changes<'a>(&'a self, before: &'a Self) -> Vec<Change<'a>> {
        let present = self.0.iter().map(|(name, now)| (&**name, before.0.get(name), Some(now)));
        let gone = before.0.iter().filter(|(name, _)| !self.0.contains_key(*name));
        let gone = gone.map(|(name, before)| (&**name, Some(before), None));
        let all = present.chain(gone).filter(|(_, before, now)| before != now);
        all.map(|(name, before, now)| (name, before.map(|text| &**text), now.map(|text| &**text))).collect()
    }
}

/// The name of a limit, and its text before and now.
type Change<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// The parts of a text that another one does not have.
fn without(text: &str, other: &str) -> String {
    let others: Vec<_> = other.split(", ").collect();
    let own: Vec<_> = text.split(", ").filter(|part| !others.contains(part)).collect();
    own.join(", ")
}

/// Logs that what was read is refused by `refused`, which gets a single finding or their number, and several findings in a line each, at most 100.
pub fn log_findings(findings: &str, refused: impl FnOnce(&dyn tracing::Value)) {
    let count = findings.lines().count();
    if count < 2 {
        return refused(&tracing::field::display(findings));
    }
    refused(&count);
    for line in findings.lines().take(MAX_LINES) {
        tracing::error!(code = %codes::FINDING, "{line}");
    }
    if let more @ 1.. = count.saturating_sub(MAX_LINES) {
        tracing::error!(code = %codes::MORE_FINDINGS, more, "more findings are not logged: `portcullis check` has all of them");
    }
}

/// Lines about one load.
const MAX_LINES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[(&str, &str)]) -> LimitTexts {
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn reload_shows_differences_alone() {
        let before = texts(&[("a", "1/s, enforce"), ("b", "2/s, enforce, open"), ("c", "3/s")]);
        let now = texts(&[("a", "1/s, enforce"), ("b", "5/s, enforce, closed"), ("d", "4/s")]);
        let changes = now.changes(&before);
        let b = ("b", Some("2/s, enforce, open"), Some("5/s, enforce, closed"));
        assert_eq!(changes, [b, ("d", None, Some("4/s")), ("c", Some("3/s"), None)]);
        assert_eq!(without("2/s, enforce, open", "5/s, enforce, closed"), "2/s, open");
        assert!(now.changes(&now).is_empty());
    }
}
