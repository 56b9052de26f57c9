//! One look at the document after the other.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::StoreError;
use portcullis_core::store::DocumentStore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::live::{LiveRules, WeakLiveRules};
use crate::overlay::{Overlay, RemoteSettings};
use crate::remote::document::{Document, DocumentError, HEADER};
use crate::remote::keys::VerifyingKey;

/// What is known of the document.
pub(super) struct Follower {
    live: WeakLiveRules,
    store: Arc<dyn DocumentStore>,
    /// What the local file says, and the generation of the rules when it was read.
    settings: Option<(u64, Option<RemoteSettings>)>,
    /// The header of the document that was applied or refused last.
    seen: Vec<u8>,
    /// Whether that document was refused for the present local file.
    is_refused: bool,
    /// The highest number of a signed document under the present name and key, and its header.
    highest: Option<(u64, Vec<u8>)>,
    /// The document that was applied last.
    applied: Option<Overlay>,
    is_out: bool,
}

impl Follower {
    pub(super) fn new(live: &LiveRules, store: Arc<dyn DocumentStore>) -> Self {
        let (live, settings, seen, highest) = (live.downgrade(), None, Vec::new(), None);
        Self { live, store, settings, seen, is_refused: false, highest, applied: None, is_out: false }
    }

    /// Looks once, and returns the time until the next look; `None` if the rules are gone.
    pub(super) async fn look(&mut self) -> Option<Duration> {
        let live = self.live.upgrade()?;
        let Some(settings) = self.settings(&live).await else { return Some(WITHOUT_SETTINGS) };
        let (store, name) = (Arc::clone(&self.store), settings.key.clone());
        // Without the rules while the store is asked, so that they can end.
        drop(live);
        let header = read(&*store, &name, HEADER).await;
        if header.as_ref().is_ok_and(|header| *header == self.seen || header.is_empty()) {
            self.answered(&name);
            return Some(settings.poll);
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
                    tracing::warn!(document = %name, %error, "remote rules cannot be read: the last good rules stay");
                }
                self.is_out = true;
            }
        }
        Some(settings.poll)
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

    /// What the local file says, which is read again after each change of the rules.
    async fn settings(&mut self, live: &LiveRules) -> Option<RemoteSettings> {
        let generation = live.generation();
        if let Some((known, settings)) = &self.settings
            && *known == generation
        {
            return settings.clone();
        }
        let loader = live.current().loader().clone();
        let was_replaced = loader.overlay() != self.applied.as_ref();
        let settings = spawn_blocking(move || loader.read_files().remote).await.ok()?;
        let former = self.settings.replace((generation, settings.clone())).and_then(|(_, former)| former);
        let is_same_signer = |new: &RemoteSettings| {
            former.as_ref().is_none_or(|former| new.is_of_same_signer(&former.key, &former.verify_key))
        };
        if settings.as_ref().is_some_and(|new| !is_same_signer(new)) {
            self.highest = None;
        }
        // A document that was refused may fit the changed file, one that was accepted may not, and rules that were replaced by hand
        // lack it.
        if std::mem::take(&mut self.is_refused) || was_replaced || former != settings {
            self.seen.clear();
        }
        settings
    }

    /// Applies a document, or refuses it once.
    async fn receive(&mut self, live: &LiveRules, settings: &RemoteSettings, document: &[u8]) {
        self.seen = document[..HEADER.min(document.len())].to_vec();
        let refused = match self.verified(settings, document) {
            Ok(document) => self.apply(live, settings, &document).await.err(),
            Err(error) => Some(error.to_string()),
        };
        self.is_refused = refused.is_some();
        if let Some(reason) = refused {
            live.reject(&format!("the remote rules {:?}: {reason}", settings.key));
        }
    }

    fn verified(&mut self, settings: &RemoteSettings, bytes: &[u8]) -> Result<Document, Refused> {
        let key: VerifyingKey = settings.verify_key.parse()?;
        let document = Document::verify(bytes, &settings.key, &key)?;
        let number = document.number();
        let lowest = match &self.highest {
            Some((highest, header)) if *header == self.seen => *highest,
            Some((highest, _)) => highest.saturating_add(1),
            None => 0,
        };
        let lowest = lowest.max(settings.minimum_number);
        if number < lowest {
            return Err(DocumentError::Stale { number, lowest }.into());
        }
        self.highest = Some((number, self.seen.clone()));
        Ok(document)
    }

    async fn apply(
        &mut self,
        live: &LiveRules,
        settings: &RemoteSettings,
        document: &Document,
    ) -> Result<(), String> {
        let name = format!("{} (document {})", settings.key, document.number()).into();
        let overlay = Overlay {
            name,
            text: document.text().into(),
            key: settings.key.clone(),
            verify_key: settings.verify_key.clone(),
            number: document.number(),
        };
        let (live, new) = (live.clone(), overlay.clone());
        let reload = move || live.reload_from(|loader| loader.clone().with_overlay(Some(new)));
        match spawn_blocking(reload).await {
            Ok(Ok(_)) => self.applied = Some(overlay),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}

/// Why a document is refused before it is read.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Key(#[from] crate::remote::keys::KeyError),
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
