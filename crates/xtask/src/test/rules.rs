//! The rules of this repository that no compiler checks.

mod book;
mod circles;
mod client_module;
mod codes;
mod dependencies;
pub(super) mod links;
pub(super) mod pages;
pub(crate) mod playground;
mod rooms;
mod runtime;
mod type_names;
mod unsafe_module;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// Reports all violations, not only the first.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let files = files(&workspace.root)?;
    let mut broken = Vec::new();
    let mut sources = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, &["rs", "lua"])) {
        let text = read(&workspace.root, file)?;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            broken.push(format!("{}: {lines} lines, at most {MAX_LINES}", file.display()));
        }
        sources.push((file.clone(), text));
    }
    let mut pages = Vec::new();
    for page in files.iter().filter(|file| is_page(file)) {
        let text = read(&workspace.root, page)?;
        broken.extend(links::dead(&workspace.root, page, &text));
        pages.push((page.clone(), text));
    }
    broken.extend(pages::violations(&workspace.root, &files, &sources)?);
    broken.extend(book::violations(&workspace.root, &pages, &sources)?);
    broken.extend(dependencies::violations(&workspace.packages));
    broken.extend(circles::violations(&sources));
    broken.extend(client_module::violations(&sources));
    broken.extend(codes::violations(&sources));
    broken.extend(rooms::violations(&sources));
    broken.extend(playground::violations(workspace)?);
    broken.extend(type_names::violations(&sources));
    broken.extend(unsafe_module::violations(&sources));
    broken.extend(runtime::violations(workspace)?);
    if !broken.is_empty() {
        bail!(
            "{} broken\n    {}",
            if broken.len() == 1 { "a rule is" } else { "rules are" },
            broken.join("\n    ")
        );
    }
    println!("checked the lengths of {} source files, the links of {} pages,", sources.len(), pages.len());
    println!("and the dependencies of {} packages and of modules", workspace.packages.len());
    Ok(())
}

/// Returns all files below `root`, relative to it and sorted, without hidden files and build output.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Cargo marks its target directories with this tag, wherever they are.
            if kind.is_dir() && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether rustdoc does not check this page: Markdown in `src` is included in the API docs.
fn is_page(file: &Path) -> bool {
    has_extension(file, &["md"]) && !file.iter().any(|part| part == "src")
}

fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    file.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
}

/// Returns one entry for each line of code of the files that `is_checked` selects for which `breaks` returns true.
fn broken_lines(
    sources: &[(PathBuf, String)],
    is_checked: impl Fn(&Path) -> bool,
    breaks: impl Fn(&str) -> bool,
    rule: &str,
) -> Vec<String> {
    let mut broken = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| is_checked(file)) {
        let code = (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
        let lines = code.filter(|(_, line)| breaks(line));
        broken.extend(lines.map(|(number, _)| format!("{}:{number}: {rule}", file.display())));
    }
    broken
}

/// Whether a file of a `src` folder, relative to it, has only tests.
pub(crate) fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// The text without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

pub(crate) fn read(root: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {}", file.display()))
}

/// The maximum lines of a source file. Files aim at 150 lines.
const MAX_LINES: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_markdown_files_outside_of_src() {
        assert!(is_page(Path::new("README.md")));
        assert!(is_page(Path::new("crates/portcullis-core/README.md")));
        assert!(!is_page(Path::new("crates/portcullis/src/docs/guide.md")));
        assert!(!is_page(Path::new("tests/data/gcra.toml")));
    }

    #[test]
    fn walk_skips_hidden_files_and_build_output() {
        let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
        assert!(files.contains(&PathBuf::from("crates/xtask/src/test/rules.rs")));
        assert!(!files.iter().any(|file| file.starts_with(".git") || file.starts_with("target")));
    }
}
