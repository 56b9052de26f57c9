//! The links of the built pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::super::rules::{
    self,
    links::{is_to_the_web, target_file},
};

/// Fails unless each link of each page leads to a file of the book, and to a place in it.
pub(super) fn check(folder: &Path) -> Result<()> {
    let files = rules::files(folder)?;
    let mut pages = BTreeMap::new();
    // The page for addresses that do not exist is shown at each of them, so its links are of the root.
    let is_page =
        |file: &&PathBuf| file.extension().is_some_and(|end| end == "html") && !file.ends_with("404.html");
    for file in files.iter().filter(is_page) {
        pages.insert(file.clone(), rules::read(folder, file)?);
    }
    ensure!(!pages.is_empty(), "no page is in {}", folder.display());
    let dead = dead_links(&pages, &files.iter().cloned().collect());
    ensure!(dead.is_empty(), "links of the book are dead\n    {}", dead.join("\n    "));
    println!("checked the links of {} built pages", pages.len());
    Ok(())
}

fn dead_links(pages: &BTreeMap<PathBuf, String>, files: &BTreeSet<PathBuf>) -> Vec<String> {
    let mut dead = Vec::new();
    for (page, html) in pages {
        for link in values(html, &[" href=\"", " src=\""]).filter(|link| !is_to_the_web(link)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = target_file(page, path);
            let is_place = anchor.is_empty()
                || pages.get(&target).is_some_and(|html| values(html, &[" id=\""]).any(|id| id == anchor));
            if !files.contains(&target) || !is_place {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    dead.dedup();
    dead
}

fn values<'a>(html: &'a str, starts: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let of = |start: &'a &str| html.split(*start).skip(1).filter_map(|rest| rest.split('"').next());
    starts.iter().flat_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_files_and_places_are_reported() {
        let a = r##"<a href="../b.html#there">b</a> <a href="#own">a</a> <img src="x.svg"> <h2 id="own">
            <a href="https://example.org/a">c</a> <a href="../b.html#gone">d</a> <a href="y.svg">e</a>"##;
        let pages = BTreeMap::from([
            (PathBuf::from("part/a.html"), a.to_owned()),
            (PathBuf::from("b.html"), r#"<h2 class="h" id="there">"#.to_owned()),
        ]);
        let files = ["part/a.html", "b.html", "part/x.svg"].map(PathBuf::from).into();
        assert_eq!(dead_links(&pages, &files), ["part/a.html: ../b.html#gone", "part/a.html: y.svg"]);
    }
}
