//! Checks the links of the guides, which are read as files and as modules of `portcullis::guide`.
//!
//! rustdoc cannot follow a link to a file. So guides link by reference: `[text][identity.md]`. The definitions at the end of a page
//! lead to files. In rustdoc those in `links.md` come before them, and the first definition of a label counts.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::{links, read};

/// Returns one line for each link that would be dead in rustdoc or in the files.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let pages = included(&read(root, Path::new(MODULE))?);
    let mut broken = Vec::new();
    let mut wanted = BTreeSet::new();
    for page in &pages {
        let text = read(root, page)?;
        broken.extend(bad_links(page, &text));
        wanted.extend(rustdoc_definitions(page, &text, &pages));
    }
    broken.extend(differences(&read(root, Path::new(LINKS))?, &wanted));
    Ok(broken)
}

/// The pages that the module includes.
fn included(module: &str) -> Vec<PathBuf> {
    let names = module.split("include_str!(\"../docs/").skip(1).filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| Path::new(PAGES).join(name)).collect()
}

/// Links that no definition can replace, or that have none.
fn bad_links(page: &Path, text: &str) -> Vec<String> {
    let at = |line: usize, link: &str, why: &str| format!("{}:{line}: {link}: {why}", page.display());
    let definitions = links::definitions(text);
    let inline = links::inline(text);
    let references = links::references(text);
    let to_files = inline.iter().filter(|(_, target)| is_to_file(target));
    let undefined = references
        .iter()
        .filter(|(_, used)| !definitions.iter().any(|(_, label, _)| label.eq_ignore_ascii_case(used)));
    let misnamed = definitions.iter().filter(|(_, label, target)| is_to_file(target) && label != target);
    let mut bad: Vec<_> =
        to_files.map(|(line, target)| at(*line, target, "write `[text][target]` and define it")).collect();
    bad.extend(undefined.map(|(line, label)| at(*line, label, "no such definition in this page")));
    bad.extend(misnamed.map(|(line, label, _)| at(*line, label, "the label of a file has to be its path")));
    bad
}

fn is_to_file(target: &str) -> bool {
    !target.starts_with('#') && !links::is_to_the_web(target)
}

/// The lines that `links.md` needs for `page`.
fn rustdoc_definitions(page: &Path, text: &str, pages: &[PathBuf]) -> Vec<String> {
    let to_files = links::definitions(text).into_iter().filter(|(_, _, target)| is_to_file(target));
    // `chart.md` and `pictures.md` define the pictures.
    let to_pages = to_files.filter(|(_, _, target)| {
        Path::new(target).extension().is_none_or(|end| end != "svg" && end != "png")
    });
    to_pages.map(|(_, label, target)| format!("[{label}]: {}", module(page, &target, pages))).collect()
}

/// The path of the module that has the page `target`.
fn module(page: &Path, target: &str, pages: &[PathBuf]) -> String {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let mut file = PathBuf::new();
    for part in page.parent().unwrap_or(page).join(path).components() {
        if part == Component::ParentDir {
            file.pop();
        } else {
            file.push(part);
        }
    }
    let Some(page) = pages.iter().find(|page| **page == file) else { return ELSEWHERE.to_owned() };
    let name = page.strip_prefix(PAGES).unwrap_or(page).with_extension("");
    let name: Vec<_> = name.iter().map(|part| part.to_string_lossy().replace('-', "_")).collect();
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    format!("crate::guide::{}{anchor}", name.join("::"))
}

fn differences(links: &str, wanted: &BTreeSet<String>) -> Vec<String> {
    let defined: BTreeSet<String> = links.lines().map(str::to_owned).collect();
    // Labels in code style name items, which the pages define by the address of the docs.
    let spare = defined.difference(wanted).filter(|line| !line.starts_with("[`"));
    let missing = wanted.difference(&defined).map(|line| format!("{LINKS}: add the line {line}"));
    missing.chain(spare.map(|line| format!("{LINKS}: no page needs the line {line}"))).collect()
}

const PAGES: &str = "docs";
const MODULE: &str = "crates/portcullis/src/guide.rs";
const LINKS: &str = "crates/portcullis/src/guide/links.md";
/// A section of the guide that names the files that are not in it.
const ELSEWHERE: &str = "crate::guide#files-of-the-repository";

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Vec<PathBuf> {
        ["docs/a.md", "docs/a/b-c.md"].map(PathBuf::from).to_vec()
    }

    #[test]
    fn pages_are_those_that_the_module_includes() {
        let module = "#[doc = include_str!(\"guide/links.md\")]\n#[doc = include_str!(\"../docs/a.md\")]\n\
                      pub mod a {}\n#[doc = include_str!(\"../docs/a/b-c.md\")]\npub mod b_c {}\n";
        assert_eq!(included(module), pages());
    }

    #[test]
    fn labels_lead_to_modules_and_to_the_list_of_files() {
        let inner = Path::new("docs/a/b-c.md");
        assert_eq!(module(inner, "../a.md#x-y", &pages()), "crate::guide::a#x-y");
        assert_eq!(module(Path::new("docs/a.md"), "a/b-c.md", &pages()), "crate::guide::a::b_c");
        assert_eq!(module(inner, "../../SECURITY.md", &pages()), ELSEWHERE);
    }

    #[test]
    fn links_that_rustdoc_cannot_follow_are_reported() {
        let text =
            "[a](#x) [b](a.md) [c][a.md] [d][e]\n[f](https://example.org)\n\n[g]: a.md\n[a.md]: a.md\n";
        let expected = [
            "docs/p.md:1: a.md: write `[text][target]` and define it",
            "docs/p.md:1: e: no such definition in this page",
            "docs/p.md:4: g: the label of a file has to be its path",
        ];
        assert_eq!(bad_links(Path::new("docs/p.md"), text), expected);
    }

    #[test]
    fn missing_and_spare_definitions_are_reported() {
        let text = "[a.md]: a.md\n[a/b.svg]: a/b.svg\n[RFC 1]: https://example.org\n";
        let wanted: BTreeSet<String> =
            rustdoc_definitions(Path::new("docs/p.md"), text, &pages()).into_iter().collect();
        assert_eq!(wanted, BTreeSet::from(["[a.md]: crate::guide::a".to_owned()]));
        let found = differences("[z.md]: crate::guide::z\n[`Z`]: crate::Z\n", &wanted);
        let expected =
            ["add the line [a.md]: crate::guide::a", "no page needs the line [z.md]: crate::guide::z"];
        assert_eq!(found, expected.map(|line| format!("{LINKS}: {line}")));
    }
}
