//! Finds the files of a pattern.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern, PatternError};

use super::MAX_ENTRIES;

/// Why the files of a pattern cannot be found.
#[derive(Debug)]
pub(super) enum WalkError {
    Pattern(PatternError),
    /// A folder that is there cannot be read.
    Folder(PathBuf, io::Error),
    /// The folders of a load have more than [`MAX_ENTRIES`] entries together.
    TooMany,
}

/// Looks into folders, at most at [`MAX_ENTRIES`] of their entries in a load.
#[derive(Debug, Default)]
pub(super) struct Walk {
    entries: usize,
}

impl Walk {
    /// The files that match a pattern below a folder, sorted. `*`, `?` and `[..]` stand for a part of one name, and names that begin
    /// with a dot are found only if the pattern has the dot.
    pub(super) fn files(&mut self, folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, WalkError> {
        let mut found = vec![folder.to_owned()];
        for part in Path::new(pattern).components() {
            let name = part.as_os_str().to_string_lossy();
            if !matches!(part, Component::Normal(_)) || !is_pattern(&name) {
                for path in &mut found {
                    path.push(part);
                }
                continue;
            }
            let name = Pattern::new(&name).map_err(WalkError::Pattern)?;
            let mut next = Vec::new();
            for folder in found {
                self.entries_of(&folder, &name, &mut next)?;
            }
            found = next;
        }
        found.retain(|path| path.symlink_metadata().is_ok() && !path.is_dir());
        found.sort();
        Ok(found)
    }

    fn entries_of(
        &mut self,
        folder: &Path,
        name: &Pattern,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), WalkError> {
        let current = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if !current.is_dir() {
            return Ok(());
        }
        let failed = |error| WalkError::Folder(current.to_owned(), error);
        let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
        for entry in fs::read_dir(current).map_err(failed)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(WalkError::TooMany);
            }
            let entry = entry.map_err(failed)?.file_name();
            if entry.to_str().is_some_and(|entry| name.matches_with(entry, options)) {
                found.push(folder.join(entry));
            }
        }
        Ok(())
    }
}

/// Whether a path has characters that stand for others.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}
