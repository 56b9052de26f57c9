//! Which files a path has.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use super::findings::without_place;
use super::{MAX_ENTRIES, MAX_FILES, MAX_FOLDERS};
use crate::diagnostic::{Diagnostic, Severity};
use crate::load::open;

/// The descriptor files at a path: the path itself, or the files of a folder and of the folders in it.
///
/// In a folder every file counts, whatever its name ends with, as in Envoy's service. Names that begin with a dot are left out, as
/// with its `RUNTIME_IGNOREDOTFILES`: they are locks and copies of editors, and the folders of which Kubernetes links the files of
/// a `ConfigMap`. A link to a file counts, and one to a folder does not, which is a warning.
#[derive(Clone, Debug, Default)]
pub struct Files {
    paths: Vec<PathBuf>,
    pub(super) findings: Vec<Diagnostic>,
    entries: usize,
}

impl Files {
    /// Looks for the files at a path. What cannot be read is a finding of the load.
    pub fn at(root: impl AsRef<Path>) -> Self {
        let mut files = Self::default();
        let root = root.as_ref();
        if root.is_dir() {
            files.folder(root, 1);
            files.paths.sort();
        } else {
            files.paths.push(root.to_owned());
        }
        files
    }

    /// The files, sorted; at most one more than [`MAX_FILES`], which is refused.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What is wrong with the folders.
    pub fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    /// A number that differs once a file was added, removed or changed, or can be read or not any more.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for finding in &self.findings {
            finding.message.hash(&mut hasher);
        }
        for path in &self.paths {
            path.hash(&mut hasher);
            match open::read(path) {
                Ok(bytes) => bytes.hash(&mut hasher),
                Err(error) => error.reason().hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        if depth > MAX_FOLDERS {
            let message = format!("{}: folders are nested more than {MAX_FOLDERS} deep", folder.display());
            self.findings.push(without_place(message, "move its files into a folder above it"));
            return;
        }
        let read = fs::read_dir(folder).and_then(|mut entries| {
            entries.try_for_each(|entry| if self.is_full() { Ok(()) } else { self.entry(&entry?, depth) })
        });
        if let Err(error) = read {
            let message = format!("the folder {} cannot be read: {error}", folder.display());
            self.findings.push(without_place(message, "check the path and its permissions"));
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, depth: usize) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            let message = format!("the folders have more than {MAX_ENTRIES} entries");
            self.findings.push(without_place(message, "give a folder that has nothing but descriptor files"));
            return Ok(());
        }
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            return Ok(());
        }
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            self.folder(&path, depth + 1);
        } else if kind.is_symlink() && path.is_dir() {
            let message = format!("{} is a link to a folder, which is not read", path.display());
            let found = without_place(message, "put the folder itself there, or give its path");
            self.findings.push(Diagnostic { severity: Severity::Warning, ..found });
        } else {
            self.paths.push(path);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.paths.len() > MAX_FILES || self.entries > MAX_ENTRIES
    }
}
