//! Pages of the book that tests make of the sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a page of the reference, such as `rules.md`.
#[must_use]
pub fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page)
}

/// Compares a page of the reference with its text. With `UPDATE_REFERENCE` in the environment the text is written instead.
///
/// # Panics
///
/// If the page has another text, or cannot be written.
#[track_caller]
pub fn compare(page: &str, text: &str) {
    let path = path(page);
    if env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        return;
    }
    let old = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        old == text,
        "docs/reference/{page} is not what its source says: set UPDATE_REFERENCE to write it\n{text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_compared_with_its_text() {
        compare("redis.md", &fs::read_to_string(path("redis.md")).unwrap());
    }

    #[test]
    #[should_panic(expected = "docs/reference/redis.md is not what its source says")]
    fn other_text_is_reported() {
        compare("redis.md", "# Redis\n");
    }
}
