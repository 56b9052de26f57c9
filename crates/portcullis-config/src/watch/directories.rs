//! The directories whose events concern a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The directories of the files, of the links on the way to them, and of what these lead to.
///
/// A file that is mounted by Kubernetes is a link to `..data/file`, and `..data` is a link that is replaced: an event of the
/// directory of both.
pub(super) fn of(files: &[PathBuf], folders: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> = folders.iter().map(|folder| or_current(folder)).collect();
    for file in files {
        let mut path = file.clone();
        for _ in 0..MAX_LINKS {
            let parent = path.parent().map_or_else(|| PathBuf::from("."), or_current);
            let next = std::fs::read_link(&path).map(|target| parent.join(target));
            all.insert(parent);
            match next {
                Ok(next) => path = next,
                Err(_) => break,
            }
        }
        if let Some(parent) = file.canonicalize().ok().as_deref().and_then(Path::parent) {
            all.insert(parent.to_owned());
        }
    }
    all
}

fn or_current(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

/// As many as systems follow.
const MAX_LINKS: usize = 40;
