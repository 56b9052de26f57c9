//! `cargo xtask lines`: how much source each crate has, without tests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::test::rules::{files, is_test, read};
use crate::workspace::Workspace;

/// Prints a table of the lines of Rust and Lua below `crates`, without tests and generated code: those of code, and all, comments and
/// empty lines included.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let (mut crates, mut all) = (BTreeMap::<String, Lines>::new(), Lines::default());
    for file in files(&workspace.root)?.iter().filter(|file| is_counted(file)) {
        let name = file.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned();
        let lines = without_tests(&read(&workspace.root, file)?);
        for sum in [crates.entry(name).or_default(), &mut all] {
            sum.code += lines.code;
            sum.all += lines.all;
        }
    }
    println!("| crate | code | all lines |\n|---|---:|---:|");
    for (name, Lines { code, all }) in
        crates.iter().map(|(name, lines)| (name.as_str(), lines)).chain([("all", &all)])
    {
        println!("| {name} | {code} | {all} |");
    }
    Ok(())
}

/// The lines of a file or crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    all: usize,
}

fn is_counted(file: &Path) -> bool {
    let is_source = file.extension().is_some_and(|extension| extension == "rs" || extension == "lua");
    let is_skipped =
        is_test(file) || file.iter().any(|part| part == "event_log_tests.rs" || part == "generated");
    is_source && file.starts_with("crates") && !is_skipped
}

/// The lines without modules of tests, which end with the first line that closes them.
fn without_tests(text: &str) -> Lines {
    let mut lines = text.lines().peekable();
    let mut count = Lines::default();
    while let Some(line) = lines.next() {
        let is_tests = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if is_tests {
            lines.find(|line| *line == "}");
        } else {
            let line = line.trim_start();
            count.all += 1;
            count.code += usize::from(!line.is_empty() && !line.starts_with("//") && !line.starts_with("--"));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_tests_are_not_counted() {
        let text = "/// Does.\nfn a() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n";
        assert_eq!(without_tests(text), Lines { code: 2, all: 4 });
        assert_eq!(without_tests("#[cfg(test)]\nmod tests;\n"), Lines { code: 2, all: 2 });
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
