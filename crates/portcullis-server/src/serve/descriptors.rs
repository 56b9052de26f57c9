//! Envoy's descriptor files, read again when they change.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis::rules::Diagnostics;
use portcullis::rules::envoy::{Descriptors, Loader, MAX_FILE_BYTES, MAX_FILES};
use tokio::task::spawn_blocking;

use super::Readiness;

/// Envoy's descriptor files: a file, or those with the endings `.yaml` and `.yml` in a folder, as in its service.
///
/// ```
/// use portcullis_server::serve::DescriptorFiles;
///
/// let missing = DescriptorFiles::new("no-such-folder/shop.yaml").load().unwrap_err();
/// assert!(missing.to_string().contains("cannot be read"));
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorFiles {
    root: PathBuf,
    loader: Loader,
    /// The fingerprint of what was loaded last, so that no change after it is missed; 0 before that. Clones share it.
    loaded: Arc<AtomicU64>,
}

impl DescriptorFiles {
    /// The files at this path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), loader: Loader::new(), loaded: Arc::default() }
    }

    /// Whether several files may have the same domain. See [`Loader::merge_domains`].
    #[must_use]
    pub fn merge_domains(self, merge: bool) -> Self {
        Self { loader: self.loader.merge_domains(merge), ..self }
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read or used, with all mistakes of all files.
    pub fn load(&self) -> Result<Descriptors, Diagnostics> {
        // Before the files are read: a change meanwhile is then one after it.
        self.loaded.store(self.fingerprint(), Ordering::Relaxed);
        self.loader.load_files(&self.paths())
    }

    /// Reads the files again whenever they have changed, until the future is dropped: looks each `interval`, and at once
    /// when the future that `now` returns ends. Limits that `apply` takes are logged; limits with mistakes, and those that `apply` refuses, are logged once, and
    /// [readiness](Readiness) shows it until they are mended.
    pub async fn follow<E, N>(
        self,
        readiness: Readiness,
        interval: Duration,
        mut now: impl FnMut() -> N,
        apply: impl Fn(Descriptors) -> Result<(), E>,
    ) where
        E: fmt::Display,
        N: Future<Output = ()>,
    {
        loop {
            let files = self.clone();
            let look = spawn_blocking(move || {
                let is_changed = files.loaded.load(Ordering::Relaxed) != files.fingerprint();
                is_changed.then(|| files.load())
            });
            // It is only cancelled when the runtime ends.
            let Ok(loaded) = look.await else { return };
            if let Some(loaded) = loaded {
                let applied = match loaded {
                    Ok(descriptors) => apply(descriptors).map_err(|error| error.to_string()),
                    Err(findings) => Err(findings.to_string()),
                };
                readiness.set_rules_refused(applied.is_err());
                match applied {
                    Ok(()) => tracing::info!("changed descriptor files apply from now on"),
                    Err(findings) => tracing::warn!(findings, "changed descriptor files are refused"),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = now() => {}
            }
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return vec![self.root.clone()];
        };
        let is_yaml = |path: &PathBuf| {
            path.extension().and_then(OsStr::to_str).is_some_and(|ending| ending == "yaml" || ending == "yml")
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_yaml);
        // One more than the loader takes, so that it reports them.
        let mut paths: Vec<_> = paths.take(MAX_FILES + 1).collect();
        paths.sort();
        paths
    }

    /// Of the names and the texts of all files.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for path in self.paths() {
            path.hash(&mut hasher);
            match read_bounded(&path) {
                Ok(bytes) => bytes.hash(&mut hasher),
                Err(error) => error.kind().hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Opening a pipe would wait for its other end.
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
