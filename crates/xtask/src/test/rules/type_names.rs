//! Checks that a crate gives few types one name: `State` alone does not tell what it is the state of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{code, is_test};

/// Returns one line for each name that a crate defines more than [`MOST`] times. `sources` are files, relative to the workspace, with
/// their text. Comments and tests do not count.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut counts: BTreeMap<(PathBuf, String), usize> = BTreeMap::new();
    for (file, text) in sources {
        if let Some(folder) = crate_folder(file) {
            for name in code(text).lines().filter_map(type_name) {
                *counts.entry((folder.to_owned(), name.to_owned())).or_default() += 1;
            }
        }
    }
    let often = counts.into_iter().filter(|(_, count)| *count > MOST);
    often
        .map(|((folder, name), count)| {
            format!("{}: {count} types are named {name}, at most {MOST}", folder.display())
        })
        .collect()
}

/// The folder of the crate that a file is of, or the file of a program of its own; `None` for tests and for other files outside of `src`.
fn crate_folder(file: &Path) -> Option<&Path> {
    if file.parent()?.ends_with("src/bin") {
        return Some(file);
    }
    let folder = file.ancestors().filter(|folder| folder.ends_with("src")).last()?;
    file.strip_prefix(folder).is_ok_and(|inner| !is_test(inner)).then(|| folder.parent())?
}

/// The name of the type or trait that a line begins to define. An indented `type` belongs to an implementation.
fn type_name(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    match words.next()? {
        "struct" | "enum" | "union" | "trait" => {}
        "type" if !is_indented => {}
        _ => return None,
    }
    let name = words.next()?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The maximum types of one name in a crate.
const MOST: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn violations_in(files: &[(&str, &str)]) -> Vec<String> {
        violations(&files.iter().map(|(file, text)| (file.into(), (*text).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn fourth_type_of_a_name_is_found() {
        let found = violations_in(&[
            ("crates/a/src/lib.rs", "pub struct State;\n\nfn f() {\n    enum State {}\n}\n"),
            ("crates/a/src/test/b.rs", "pub(crate) trait State: Copy {}\n"),
            ("crates/a/src/c.rs", "type State<T> = Vec<T>;\nstruct Other<T>(T);\n"),
            ("tests/src/lib.rs", "struct State<'a>(&'a str);\n"),
        ]);
        assert_eq!(found, ["crates/a: 4 types are named State, at most 3"]);
    }

    #[test]
    fn tests_comments_and_associated_types_do_not_count() {
        let three =
            "struct State;\nmod b {\n    struct State;\n}\npub struct State {\n    state: State,\n}\n";
        let found = violations_in(&[
            ("crates/a/src/lib.rs", three),
            (
                "crates/a/src/c.rs",
                "impl D for E {\n    type State = E;\n}\n// struct State;\nstruct States;\n",
            ),
            ("crates/a/src/d.rs", "#[cfg(test)]\nmod tests {\n    struct State;\n}\n"),
            ("crates/a/src/d/tests.rs", "struct State;\n"),
            ("crates/a/src/d/tests/e.rs", "struct State;\n"),
            ("crates/a/tests/f.rs", "struct State;\n"),
            ("crates/b/src/lib.rs", "struct State;\n"),
            ("crates/a/src/bin/g.rs", "struct State;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
