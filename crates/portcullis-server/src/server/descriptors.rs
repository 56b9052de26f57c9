//! Envoy's descriptor files, read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portcullis::event::EventKind;
use portcullis::rules::Diagnostics;
use portcullis::rules::envoy::{Descriptors, Files, Loader};
use portcullis_log::{codes, file_log::log_findings};
use tokio::task::spawn_blocking;

use crate::Readiness;

/// Envoy's descriptor files: a file, or [all of a folder](Files) and of the folders in it, as in its service.
///
/// ```
/// use portcullis_server::DescriptorFiles;
///
/// let missing = DescriptorFiles::new("no-such-folder/shop.yaml").load().unwrap_err();
/// assert!(missing.to_string().contains("cannot be read"));
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorFiles {
    root: PathBuf,
    loader: Loader,
    allows_empty: bool,
    loaded: Arc<LastLoad>,
}

/// What was loaded last. Clones share it.
#[derive(Debug, Default)]
struct LastLoad {
    /// The fingerprint of the files, so that no change after it is missed; 0 before that.
    fingerprint: AtomicU64,
    /// Whether the first load has found no files in a folder, and none has since.
    is_empty: AtomicBool,
    /// How often the first limits were replaced.
    generation: AtomicU64,
}

impl DescriptorFiles {
    /// The files at this path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), loader: Loader::new(), allows_empty: false, loaded: Arc::default() }
    }

    /// Whether several files may have the same domain. See [`Loader::merge_domains`].
    #[must_use]
    pub fn merge_domains(self, merge: bool) -> Self {
        Self { loader: self.loader.merge_domains(merge), ..self }
    }

    /// Whether a folder without files means that nothing is limited. By default a server with an empty folder is
    /// [not ready](crate::NotReady::NoRules), and the last good limits stay when a folder becomes empty.
    #[must_use]
    pub fn allow_empty(self, allow: bool) -> Self {
        Self { allows_empty: allow, ..self }
    }

    /// Reads the files, and logs how many there are.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read or used, with all mistakes of all files.
    pub fn load(&self) -> Result<Descriptors, Diagnostics> {
        let descriptors = self.read()?;
        let is_empty = self.is_empty(&descriptors);
        self.loaded.is_empty.store(is_empty, Ordering::Relaxed);
        if is_empty {
            tracing::warn!(
                code = %codes::NO_DESCRIPTORS,
                folder = %self.root.display(),
                "the folder has no descriptor files, so that nothing is limited: it is not ready until there are some"
            );
        } else {
            Counts::of(&descriptors).log(&self.root, "descriptor files apply");
        }
        Ok(descriptors)
    }

    fn read(&self) -> Result<Descriptors, Diagnostics> {
        // Before the files are read: a change meanwhile is then one after it.
        self.loaded.fingerprint.store(self.fingerprint(), Ordering::Relaxed);
        self.loader.load_path(&Files::at(&self.root))
    }

    fn is_empty(&self, descriptors: &Descriptors) -> bool {
        !self.allows_empty && descriptors.files() == 0
    }

    /// Reads the files again whenever they have changed, until the future is dropped: looks each `interval`, and at once
    /// when the future that `now` returns ends. Limits that `apply` takes are logged; limits with mistakes, a folder without files, and those that
    /// `apply` refuses, are logged once, and [readiness](Readiness::has_refused_rules) shows it until they are mended. As for native rules,
    /// [`EventKind::RulesReloaded`] and [`EventKind::RulesRejected`] are emitted.
    pub fn follow<E, N>(
        self,
        readiness: Readiness,
        interval: Duration,
        mut now: impl FnMut() -> N,
        apply: impl Fn(Descriptors) -> Result<(), E>,
    ) -> impl Future<Output = ()>
    where
        E: fmt::Display,
        N: Future<Output = ()>,
    {
        // Before a server that is made next gets requests.
        readiness.set_no_rules(self.loaded.is_empty.load(Ordering::Relaxed));
        async move {
            loop {
                let files = self.clone();
                let look = spawn_blocking(move || {
                    let is_changed = files.loaded.fingerprint.load(Ordering::Relaxed) != files.fingerprint();
                    is_changed.then(|| files.read())
                });
                // It is only cancelled when the runtime ends.
                let Ok(loaded) = look.await else { return };
                if let Some(loaded) = loaded {
                    self.replace(loaded, &readiness, &apply);
                }
                tokio::select! {
                    () = tokio::time::sleep(interval) => {}
                    () = now() => {}
                }
            }
        }
    }

    fn replace<E: fmt::Display>(
        &self,
        loaded: Result<Descriptors, Diagnostics>,
        readiness: &Readiness,
        apply: impl Fn(Descriptors) -> Result<(), E>,
    ) {
        let applied = match loaded {
            Ok(descriptors) if self.is_empty(&descriptors) => {
                // There is nothing that could stay.
                if self.loaded.is_empty.load(Ordering::Relaxed) {
                    return readiness.set_rules_refused(false);
                }
                Err(format!("{} has no descriptor files any more", self.root.display()))
            }
            Ok(descriptors) => {
                let counts = Counts::of(&descriptors);
                apply(descriptors).map(|()| counts).map_err(|error| error.to_string())
            }
            Err(findings) => Err(findings.to_string()),
        };
        let number = &self.loaded.generation;
        match applied {
            Ok(counts) => {
                self.loaded.is_empty.store(false, Ordering::Relaxed);
                readiness.set_no_rules(false);
                readiness.set_rules_refused(false);
                counts.log(&self.root, "changed descriptor files apply from now on");
                let generation = number.fetch_add(1, Ordering::Relaxed) + 2;
                readiness.report(EventKind::RulesReloaded { generation });
            }
            Err(findings) => {
                log_findings(&findings, |findings| {
                    tracing::error!(
                        code = %codes::DESCRIPTORS_REFUSED,
                        findings,
                        "changed descriptor files are refused, and the last good ones apply"
                    );
                });
                let generation = number.load(Ordering::Relaxed) + 1;
                readiness.set_rules_refused(true);
                readiness.report(EventKind::RulesRejected { generation, findings: &findings });
            }
        }
    }

    /// Of the names and the texts of all files.
    fn fingerprint(&self) -> u64 {
        Files::at(&self.root).fingerprint()
    }
}

/// How much there is in descriptor files.
struct Counts {
    files: usize,
    domains: usize,
    limits: usize,
}

impl Counts {
    fn of(descriptors: &Descriptors) -> Self {
        let (domains, limits) = (descriptors.domains().len(), descriptors.limits().len());
        Self { files: descriptors.files(), domains, limits }
    }

    fn log(&self, path: &Path, message: &str) {
        let Self { files, domains, limits } = self;
        tracing::info!(path = %path.display(), files, domains, limits, "{message}");
    }
}

#[cfg(test)]
mod tests;
