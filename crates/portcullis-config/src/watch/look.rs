//! Whether the files have changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use tokio::sync::Notify;

use super::directories;
use super::events::Events;
use crate::live::{LiveRules, ReloadError};
use crate::load::Loaded;
use crate::rules::Rules;
use crate::source::Sources;

/// One look at the files after the other.
pub(super) struct Looks {
    events: Option<Events>,
    /// The files as they were when they were refused.
    refused: Option<u64>,
}

impl Looks {
    /// Notifies `changed` of events, if there are to be any.
    pub(super) fn new(changed: Option<Arc<Notify>>) -> Self {
        Self { events: changed.map(Events::new), refused: None }
    }

    /// Reads the files, and reloads the rules if they are neither those of the rules nor what was refused before. Blocks.
    pub(super) fn look(&mut self, live: &LiveRules, is_forced: bool) {
        let rules = live.current();
        let mut loaded = rules.loader().read();
        if let Some(events) = &mut self.events {
            events.watch(directories::of(&loaded.files, &loaded.folders));
            // A change before the directory was watched is no event.
            loaded = rules.loader().read();
        }
        let now = fingerprint(&loaded);
        let is_current = loaded.files.len() == rules.files().len()
            && is_same(&loaded.sources, rules.warnings().sources(), has_document(&rules));
        // They are reloaded also if others were refused before, so that observers learn that nothing is refused any more.
        let is_restored = is_current && self.refused.take().is_some();
        if is_forced || is_restored || (!is_current && self.refused != Some(now)) {
            // One that was interrupted is made again at the next look.
            let is_refused = |error| !matches!(error, ReloadError::Interrupted);
            self.refused = live.reload().err().is_some_and(is_refused).then_some(now);
        }
    }
}

/// Whether the files are those that the rules were read from, to which a document may have been added.
fn is_same(files: &Sources, of_rules: &Sources, has_document: bool) -> bool {
    let added = usize::from(has_document);
    let mut pairs = files.iter().zip(of_rules.iter());
    files.iter().len() + added == of_rules.iter().len()
        && pairs.all(|(now, before)| now.name == before.name && now.text == before.text)
}

#[cfg(feature = "signed")]
fn has_document(rules: &Rules) -> bool {
    rules.document().is_some()
}

#[cfg(not(feature = "signed"))]
fn has_document(_: &Rules) -> bool {
    false
}

/// What is read now, with what cannot be read.
fn fingerprint(loaded: &Loaded) -> u64 {
    let mut hasher = DefaultHasher::new();
    for source in loaded.sources.iter() {
        (&source.name, &source.text).hash(&mut hasher);
    }
    loaded.files.hash(&mut hasher);
    for finding in &loaded.findings {
        finding.message.hash(&mut hasher);
    }
    hasher.finish()
}
