//! One look at the document after the other.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::StoreError;
use portcullis_core::store::DocumentStore;
use portcullis_log::codes;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::numbers::Numbers;
use crate::live::{LiveRules, WeakLiveRules};
use crate::overlay::{Overlay, RemoteSettings};
use crate::signed::{Document, DocumentError, HEADER, KeyError, VerifyingKey};

/// What is known of the document.
pub(super) struct Follower {
    live: WeakLiveRules,
    store: Arc<dyn DocumentStore>,
    /// The generation of the rules for which the document was judged.
    generation: Option<u64>,
    /// The header of the document that was judged last. Empty if it has to be judged again.
    seen: Vec<u8>,
    /// When that document was refused.
    refused: Option<Instant>,
    numbers: Numbers,
    is_out: bool,
    /// Whether the store has no document.
    is_missing: bool,
}

impl Follower {
    pub(super) fn new(live: &LiveRules, store: Arc<dyn DocumentStore>) -> Self {
        let (generation, seen, refused, numbers) = (None, Vec::new(), None, Numbers::default());
        let (is_out, is_missing) = (false, false);
        Self { live: live.downgrade(), store, generation, seen, refused, numbers, is_out, is_missing }
    }

    /// Looks once, and returns the time until the next look; `None` if the rules are gone.
    pub(super) async fn look(&mut self) -> Option<Duration> {
        let live = self.live.upgrade()?;
        let Some(settings) = self.settings(&live) else { return Some(WITHOUT_SETTINGS) };
        let (store, name) = (Arc::clone(&self.store), settings.key.clone());
        // Without the rules while the store is asked, so that they can end.
        drop(live);
        let header = read(&*store, &name, HEADER).await;
        let is_known =
            |header: &Vec<u8>| header.is_empty() || (*header == self.seen && !self.is_due(&settings));
        if header.as_ref().is_ok_and(is_known) {
            self.answered(&name);
            if header.is_ok_and(|header| header.is_empty()) {
                self.live.upgrade()?.no_document();
                if !std::mem::replace(&mut self.is_missing, true) {
                    tracing::info!(document = %name, "there is no document of remote rules: the rules that apply stay");
                }
            }
            return Some(self.pause(&settings));
        }
        let document = match header {
            Ok(_) => read(&*store, &name, HEADER + Document::MAX + 1).await,
            error => error,
        };
        match document {
            Ok(document) => {
                self.answered(&name);
                let live = self.live.upgrade()?;
                self.receive(&live, &settings, &document).await;
            }
            Err(error) => {
                if !self.is_out {
                    tracing::warn!(code = %codes::REMOTE_RULES_UNREADABLE, document = %name, %error, "remote rules cannot be read: the rules that apply stay");
                }
                self.is_out = true;
            }
        }
        Some(self.pause(&settings))
    }

    #[cfg(test)]
    pub(super) fn is_out(&self) -> bool {
        self.is_out
    }

    fn answered(&mut self, name: &str) {
        if std::mem::take(&mut self.is_out) {
            tracing::info!(document = %name, "remote rules can be read again");
        }
    }

    /// What the local file of the present rules says. After a change of the rules the document is judged again: one that was refused may
    /// fit them, one that was accepted may not, and rules that were replaced by hand lack it.
    fn settings(&mut self, live: &LiveRules) -> Option<RemoteSettings> {
        // Before the rules: if they are replaced in between, the next look sees another generation.
        let generation = Some(live.generation());
        if self.generation != generation {
            self.generation = generation;
            self.seen.clear();
        }
        live.current().remote().cloned()
    }

    /// The time until the next look, before it is varied by up to a tenth. A store that does not answer is asked again soon: until then an
    /// instance that has started has the rules of its file alone.
    fn pause(&self, settings: &RemoteSettings) -> Duration {
        if self.is_out {
            settings.poll.min(LONGEST_WHILE_OUT)
        } else if self.refused.is_some() {
            settings.poll.min(LONGEST_AFTER_REFUSAL)
        } else {
            settings.poll
        }
    }

    /// Whether a refused document is judged again now, because the next look may be too late. Its header does not show whether the rest
    /// has changed, nor whether the reason is gone.
    fn is_due(&self, settings: &RemoteSettings) -> bool {
        let longest = self.pause(settings).mul_f64(1.1);
        self.refused.is_some_and(|refused| refused.elapsed() + longest > JUDGED_AGAIN)
    }

    /// Applies a document, or refuses it.
    async fn receive(&mut self, live: &LiveRules, settings: &RemoteSettings, document: &[u8]) {
        self.is_missing = false;
        self.seen = document[..HEADER.min(document.len())].to_vec();
        self.refused = Some(Instant::now());
        let overlay = match self.verified(settings, document) {
            Ok(document) => overlay(settings, &document),
            Err(error) => return live.refuse_document(&settings.key, document, &error.to_string()),
        };
        let (rules, new) = (live.clone(), overlay.clone());
        let applied = spawn_blocking(move || rules.apply_document(&new)).await;
        match applied.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(generation) => {
                self.refused = None;
                // The file may have changed meanwhile: the next look judges by the settings that it has now.
                if live.current().remote() == Some(settings) {
                    self.generation = Some(generation);
                }
            }
            Err(reason) => live.refuse_document(&settings.key, &overlay, &reason),
        }
    }

    fn verified(&mut self, settings: &RemoteSettings, bytes: &[u8]) -> Result<Document, Refused> {
        let key: VerifyingKey = settings.verify_key.parse()?;
        let document = Document::verify(bytes, &settings.key, &key)?;
        self.numbers.accept(settings, document.number(), &self.seen)?;
        Ok(document)
    }
}

fn overlay(settings: &RemoteSettings, document: &Document) -> Overlay {
    Overlay {
        name: format!("{} (document {})", settings.key, document.number()).into(),
        text: document.text().into(),
        key: settings.key.clone(),
        verify_key: settings.verify_key.clone(),
        number: document.number(),
    }
}

/// Why a document is refused before it is read.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Document(#[from] DocumentError),
}

async fn read(store: &dyn DocumentStore, name: &str, length: usize) -> Result<Vec<u8>, StoreError> {
    timeout(LONGEST_READ, store.read(name, length)).await.unwrap_or_else(|_| {
        Err(StoreError::new(
            portcullis_core::StoreErrorKind::Unavailable,
            "the store did not answer within 10 s",
        ))
    })
}

/// A store has deadlines of its own, which are shorter.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// How often a file without `[remote]` is looked at again, after a reload.
const WITHOUT_SETTINGS: Duration = Duration::from_secs(5);
/// A store costs one call of some bytes.
const LONGEST_WHILE_OUT: Duration = Duration::from_secs(5);
/// The time after which a refused document has been judged again.
const JUDGED_AGAIN: Duration = Duration::from_secs(60);
/// With the tenth by which it varies, below the time above.
const LONGEST_AFTER_REFUSAL: Duration = Duration::from_secs(54);
