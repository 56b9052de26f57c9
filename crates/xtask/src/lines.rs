//! `cargo xtask lines`: how much source each crate has, without tests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::test::rules::{files, is_test, read};
use crate::workspace::Workspace;

/// Prints a table of the lines of Rust and Lua below `crates`, comments and empty lines included, without tests and generated code.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut crates: BTreeMap<String, usize> = BTreeMap::new();
    for file in files(&workspace.root)?.iter().filter(|file| is_counted(file)) {
        let name = file.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned();
        *crates.entry(name).or_default() += without_tests(&read(&workspace.root, file)?);
    }
    println!("| crate | lines without tests |\n|---|---:|");
    for (name, lines) in &crates {
        println!("| {name} | {lines} |");
    }
    println!("| all | {} |", crates.values().sum::<usize>());
    Ok(())
}

fn is_counted(file: &Path) -> bool {
    let is_source = file.extension().is_some_and(|extension| extension == "rs" || extension == "lua");
    let is_skipped =
        is_test(file) || file.iter().any(|part| part == "event_log_tests.rs" || part == "generated");
    is_source && file.starts_with("crates") && !is_skipped
}

/// The number of lines without modules of tests, which end with the first line that closes them.
fn without_tests(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let is_tests = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if is_tests {
            lines.find(|line| *line == "}");
        } else {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_tests_are_not_counted() {
        assert_eq!(without_tests("fn a() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n"), 3);
        assert_eq!(without_tests("#[cfg(test)]\nmod tests;\n"), 2);
    }

    #[test]
    fn tests_and_generated_code_are_no_sources() {
        let counted = |path: &str| is_counted(Path::new(path));
        assert!(counted("crates/a/src/lib.rs") && counted("crates/a/src/lua/meter.lua"));
        for other in [
            "crates/a/tests/it.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/generated/a.rs",
            "tests/it/a.rs",
            "crates/a/a.md",
        ] {
            assert!(!counted(other), "{other}");
        }
    }
}
