//! Signed documents that change the rules.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_log::{codes, file_log::log_findings};
use portcullis_tower::{EventKind, LayerError};
use tokio::sync::Notify;

use super::{LiveRules, ReloadError, Shared, is_emptied};
use crate::overlay::Overlay;
use crate::rules::Rules;

/// What is known of the documents of the rules.
#[derive(Debug, Default)]
pub(super) struct Documents {
    reports: Mutex<Reports>,
    /// Whether the document of the store does not apply.
    is_refused: AtomicBool,
    /// Notified after each change of the rules.
    replaced: Arc<Notify>,
}

/// Fingerprints of what was reported.
#[derive(Debug, Default)]
struct Reports {
    /// The fingerprint of the document that applies.
    applied: Option<u64>,
    /// Fingerprints of the documents that were refused since it was applied, with the reasons.
    refused: VecDeque<u64>,
}

impl LiveRules {
    /// Replaces the document, reads the rules again, and returns the generation, which is the present one if this document applies
    /// already. Nothing is replaced and nothing is reported if that fails.
    pub(crate) fn apply_document(&self, document: &Overlay) -> Result<u64, String> {
        let read = |current: &Rules| {
            if current.document() == Some(document) {
                return Err(Unapplied::Already);
            }
            let rules = Rules::load(&current.loader().clone().with_overlay(document.clone()))
                .map_err(ReloadError::Invalid)?;
            match rules.discarded() {
                Some((_, reason)) => Err(Unapplied::Unfit(reason.to_owned())),
                None if is_emptied(current, &rules) => Err(Unapplied::Files(ReloadError::NoPolicies)),
                None => Ok(rules),
            }
        };
        match self.0.reload(read, Shared::swap_generation) {
            Ok(generation) => {
                self.0.documents.is_refused.store(false, Relaxed);
                self.reloaded(generation);
                Ok(generation)
            }
            Err(Unapplied::Already) => {
                self.0.documents.is_refused.store(false, Relaxed);
                Ok(self.generation())
            }
            Err(Unapplied::Unfit(reason)) => Err(reason),
            Err(Unapplied::Files(ReloadError::Invalid(findings))) => {
                Err(format!("the local file cannot be used: {findings}"))
            }
            Err(Unapplied::Files(error)) => Err(error.to_string()),
        }
    }

    /// Reports that a document was refused, once for each document and reason.
    pub(crate) fn refuse_document(&self, name: &str, document: impl Hash, reason: &str) {
        if self.refuse(fingerprint((document, reason))) {
            let findings = format!("the remote rules {name:?}: {reason}");
            self.0.registry.rules_rejected(self.generation(), &findings);
        }
    }

    /// Notes that a document does not apply. Returns whether it was not reported yet.
    fn refuse(&self, refusal: u64) -> bool {
        self.0.documents.is_refused.store(true, Relaxed);
        let mut reports = self.reports();
        if reports.refused.contains(&refusal) {
            return false;
        }
        if reports.refused.len() == MAX_REPORTED {
            reports.refused.pop_front();
        }
        reports.refused.push_back(refusal);
        true
    }

    /// Notes that the store has no document, so that none is refused; one that was discarded still is.
    pub(crate) fn no_document(&self) {
        self.0.documents.is_refused.store(self.current().discarded().is_some(), Relaxed);
    }

    /// What is notified after each change of the rules. Does not keep the rules.
    pub(crate) fn replacements(&self) -> Arc<Notify> {
        Arc::clone(&self.0.documents.replaced)
    }

    /// Reports what a change of the rules has done to their document.
    pub(super) fn report_document(&self) {
        let mut reports = self.reports();
        // Under the lock, so that the later of two changes at the same time is noted last.
        let rules = self.current();
        let applied = rules.document().map(fingerprint);
        if applied.is_some() && applied != reports.applied {
            reports.refused.clear();
        }
        reports.applied = applied;
        drop(reports);
        if let Some((document, reason)) = rules.discarded()
            && self.refuse(fingerprint((document, reason)))
        {
            let name = &document.key;
            let findings =
                format!("the remote rules {name:?} do not fit the local file, whose values apply: {reason}");
            log_findings(&findings, |findings| {
                tracing::error!(
                    code = %codes::DOCUMENT_DISCARDED,
                    findings,
                    "the signed document does not fit the files, whose values apply"
                );
            });
            self.0
                .registry
                .emit_event(EventKind::RulesRejected { generation: self.generation(), findings: &findings });
        }
        self.0.documents.replaced.notify_waiters();
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.0.documents.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Documents {
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }
}

impl Shared {
    /// Replaces the rules of one generation by the rules of files that were read again, without their document if the limiter cannot have
    /// the rules with it. Returns `None` if the rules of another generation are current.
    pub(super) fn swap_files(&self, rules: Rules, replaced: u64) -> Result<Option<u64>, LayerError> {
        if rules.document().is_none() {
            return self.swap_generation(rules, replaced);
        }
        let error = match self.swap_generation(rules.clone(), replaced) {
            Err(error) => error,
            swapped => return swapped,
        };
        match rules.without_document(error.to_string()) {
            // They were read once more, and may have been emptied since.
            Ok(files) if is_emptied(&rules, &files) => Err(error),
            Ok(files) => self.swap_generation(files, replaced),
            Err(_) => Err(error),
        }
    }
}

/// Why a document does not change the rules.
enum Unapplied {
    Already,
    /// It does not fit the local file.
    Unfit(String),
    Files(ReloadError),
}

impl From<ReloadError> for Unapplied {
    fn from(error: ReloadError) -> Self {
        Self::Files(error)
    }
}

fn fingerprint(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The most refusals that are known to be reported. Older ones are reported again.
const MAX_REPORTED: usize = 64;
