//! Checks that the modules of one folder do not depend on each other in a circle, in the root of a crate and in each folder below.
//!
//! A path from the folder is a dependency on the module that it names, or on the one that the folder's own module re-exports the item
//! from. This is read from the text. Comments and tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{code, is_test};

/// Returns one line for each folder with a circle. `sources` are files, relative to the workspace, with their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut violations = Vec::new();
    let names = sources.iter().filter_map(|(file, _)| crate_name(file));
    for name in names.collect::<BTreeSet<_>>() {
        let source = Path::new("crates").join(name).join("src");
        let inner = |file: &Path| Some(file.strip_prefix(&source).ok()?.to_path_buf());
        let files = sources.iter().filter_map(|(file, text)| Some((inner(file)?, code(text))));
        let files: Vec<_> = files.filter(|(file, _)| !is_test(file)).collect();
        let folders: BTreeSet<_> = files.iter().filter_map(|(file, _)| file.parent()).collect();
        for folder in folders {
            let place: PathBuf = [name].iter().map(Path::new).chain(folder.iter().map(Path::new)).collect();
            let found = circle(uses(&files, folder));
            violations
                .extend(found.map(|circle| format!("{}: modules in a circle: {circle}", place.display())));
        }
    }
    violations
}

/// The crate that a file is of.
fn crate_name(file: &Path) -> Option<&str> {
    file.strip_prefix("crates").ok()?.iter().next()?.to_str()
}

/// The modules of a folder that each of them uses.
fn uses<'a>(files: &'a [(PathBuf, String)], folder: &Path) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let below = || files.iter().filter_map(|(file, code)| Some((file.strip_prefix(folder).ok()?, code)));
    let modules: BTreeSet<&str> = below().filter_map(|(file, _)| module(file)).collect();
    let mut homes: BTreeMap<&str, &str> = modules.iter().map(|module| (*module, *module)).collect();
    for (_, own) in files.iter().filter(|(file, _)| is_own(file, folder)) {
        for import in own.split("use ").skip(1) {
            let mut names = names(import);
            if let Some(module) = names.next().and_then(|name| modules.get(name).copied()) {
                for name in names {
                    homes.entry(name).or_insert(module);
                }
            }
        }
    }
    let absolute: String = ["crate"]
        .into_iter()
        .chain(folder.iter().filter_map(|part| part.to_str()))
        .fold(String::new(), |path, part| path + part + "::");
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, code) in below().filter(|(file, _)| !is_own(&folder.join(file), folder)) {
        let from = module(file).unwrap_or_default();
        for path in code.split(&absolute).skip(1).chain(relative(code, file.iter().count())) {
            let most = if path.starts_with('{') { usize::MAX } else { 1 };
            let to = names(path).take(most).filter_map(|name| homes.get(name).copied());
            uses.entry(from).or_default().extend(to.filter(|to| *to != from));
        }
    }
    uses
}

/// Whether a file is the module of a folder itself.
fn is_own(file: &Path, folder: &Path) -> bool {
    match folder.parent() {
        Some(_) => file == folder.with_extension("rs"),
        None => matches!(file.to_str(), Some("lib.rs" | "main.rs")),
    }
}

/// What follows on exactly this many `super::`.
fn relative(code: &str, depth: usize) -> impl Iterator<Item = &str> {
    let up = "super::".repeat(depth);
    code.match_indices("super::").filter_map(move |(start, _)| {
        let (before, rest) = code.split_at(start);
        let rest = rest.strip_prefix(&up).filter(|_| !before.ends_with("super::"))?;
        (!rest.starts_with("super::")).then_some(rest)
    })
}

fn module(file: &Path) -> Option<&str> {
    Path::new(file.iter().next()?).file_stem()?.to_str()
}

/// The names up to the end of a statement.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let statement = text.split(';').next().unwrap_or(text);
    statement.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// Returns the modules of a circle, with the first one at the end again.
fn circle(mut uses: BTreeMap<&str, BTreeSet<&str>>) -> Option<String> {
    // A module that uses none of those that are left is in no circle.
    while let Some(last) =
        uses.keys().copied().find(|module| uses[module].iter().all(|used| !uses.contains_key(used)))
    {
        uses.remove(last);
    }
    let mut path = vec![*uses.keys().next()?];
    loop {
        let next = *uses[path.last()?].iter().find(|used| uses.contains_key(*used))?;
        path.push(next);
        if let Some(start) =
            path.iter().position(|module| *module == next).filter(|start| start + 1 < path.len())
        {
            return Some(path[start..].join(" -> "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations_in(files: [(&str, &str); 5]) -> Vec<String> {
        let folder = Path::new("crates/portcullis/src");
        violations(&files.map(|(file, text)| (folder.join(file), text.to_owned())))
    }

    #[test]
    fn circles_are_found_through_re_exports() {
        let found = violations_in([
            ("lib.rs", "mod a;\npub use c::{C, inner::D};\n"),
            ("a.rs", "use crate::{\n    b::{B, E},\n    d,\n};\n"),
            ("b/inner.rs", "use super::super::D;\n"),
            ("c/inner.rs", "fn f() {\n    crate::a::f();\n}\n"),
            ("d.rs", "use super::b::B;\n"),
        ]);
        assert_eq!(found, ["portcullis: modules in a circle: a -> b -> c -> a"]);
    }

    #[test]
    fn circles_of_a_folder_below_are_found() {
        let found = violations_in([
            ("lib.rs", "mod a;\nmod b;\nuse a::c;\n"),
            ("a.rs", "mod c;\nmod d;\npub use d::D;\n"),
            ("a/c.rs", "use super::D;\nuse super::super::b::B;\n"),
            ("a/d/inner.rs", "use crate::a::c::C;\n"),
            ("b.rs", "\n"),
        ]);
        assert_eq!(found, ["portcullis/a: modules in a circle: c -> d -> c"]);
    }

    #[test]
    fn tests_comments_and_inner_modules_do_not_count() {
        let found = violations_in([
            ("main.rs", "mod a;\nuse a::A;\n"),
            ("a.rs", "use crate::b::{self, B};\n"),
            ("b.rs", "//! See [`crate::a`].\n\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n"),
            ("b/inner.rs", "use super::a::Inner;\n"),
            ("b/tests.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
