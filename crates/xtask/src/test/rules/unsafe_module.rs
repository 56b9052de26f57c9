//! Checks that no module but one allows unsafe code.

use std::path::{Path, PathBuf};

use super::broken_lines;

/// Returns one entry for each line elsewhere that allows unsafe code. `sources` are files, relative to the workspace, with their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let is_checked = |file: &Path| ![MODULE, EXPORTS, OWN].map(Path::new).contains(&file);
    // The workspace denies unsafe code, so that there is none in code that does not name the lint.
    broken_lines(
        sources,
        is_checked,
        |line| line.contains(LINT),
        &format!("only {MODULE} allows unsafe code"),
    )
}

/// The module, which has the reason.
const MODULE: &str = "crates/portcullis-memory/src/table/prefetch.rs";
/// Names the one that is compiled for WebAssembly only: what a page calls needs attributes that count as unsafe code.
const EXPORTS: &str = "playground/engine/src/lib.rs";
const LINT: &str = "unsafe_code";
/// This file, which names the lint.
const OWN: &str = "crates/xtask/src/test/rules/unsafe_module.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_elsewhere_is_found() {
        let text = "//! unsafe_code\n#![expect(unsafe_code)]\n\n    #[allow(unsafe_code)]\n#[expect(\n    dead_code, unsafe_code,\n)]\nlet x = \
                    #[allow(unsafe_code)] 1;\n";
        let violations_in = |file: &str| violations(&[(PathBuf::from(file), text.to_owned())]);
        let file = "crates/portcullis-core/src/prefetch.rs";
        let expected = [2, 4, 6, 8].map(|line| format!("{file}:{line}: only {MODULE} allows unsafe code"));
        assert_eq!(violations_in(file), expected);
        assert_eq!(violations_in(MODULE), [""; 0]);
    }

    #[test]
    fn the_module_exists() {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(MODULE).exists());
    }
}
