//! Checks that no module but one allows unsafe code.

use std::path::{Path, PathBuf};

/// Returns one entry for each line elsewhere that allows unsafe code. `sources` are files, relative to the workspace, with their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| file != Path::new(MODULE)) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| allows(line));
        violations.extend(
            lines.map(|(number, _)| format!("{}:{number}: only {MODULE} allows unsafe code", file.display())),
        );
    }
    violations
}

/// Whether a line is of an attribute that names the lint, which may have several lines. The workspace denies unsafe code, so that there is
/// none without it.
fn allows(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('#') && line.contains(LINT) || line.starts_with(LINT)
}

/// The module, which has the reason.
const MODULE: &str = "crates/portcullis-memory/src/prefetch.rs";
const LINT: &str = "unsafe_code";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_elsewhere_is_found() {
        let text = "//! unsafe_code\n#![expect(unsafe_code)]\n\n    #[allow(unsafe_code)]\n#[expect(\n    unsafe_code,\n)]\n";
        let violations_in = |file: &str| violations(&[(PathBuf::from(file), text.to_owned())]);
        let file = "crates/portcullis-core/src/prefetch.rs";
        let expected = [2, 4, 6].map(|line| format!("{file}:{line}: only {MODULE} allows unsafe code"));
        assert_eq!(violations_in(file), expected);
        assert_eq!(violations_in(MODULE), [""; 0]);
    }

    #[test]
    fn the_module_exists() {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(MODULE).exists());
    }
}
