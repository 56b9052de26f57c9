//! Checks links of Markdown pages to files of the repository, and to headings in them.
//!
//! Checkers such as `lychee` consist of 400 crates, which compile for minutes.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns one line for each dead link of `page`. Links to the web are not checked.
pub(super) fn dead(root: &Path, page: &Path, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    for (line, link) in links(text) {
        if let Some(why) = why_dead(root, page, text, &link) {
            dead.push(format!("{}:{line}: {link}: {why}", page.display()));
        }
    }
    dead
}

fn why_dead(root: &Path, page: &Path, text: &str, link: &str) -> Option<&'static str> {
    if is_to_the_web(link) {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = match path.strip_prefix('/') {
        _ if path.is_empty() => root.join(page),
        Some(from_root) => root.join(from_root),
        None => root.join(page).parent()?.join(path),
    };
    if !path.is_empty() && !file.exists() {
        return Some("no such file");
    }
    let to_heading = !anchor.is_empty() && file.extension().is_some_and(|extension| extension == "md");
    if !to_heading {
        return None;
    }
    let there = if path.is_empty() { text.to_owned() } else { fs::read_to_string(&file).unwrap_or_default() };
    (!anchors(&there).iter().any(|known| known == anchor)).then_some("no such heading")
}

pub(in crate::test) fn is_to_the_web(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The file to which `path` leads from `page`.
pub(in crate::test) fn target_file(page: &Path, path: &str) -> PathBuf {
    let start = if path.is_empty() { page } else { page.parent().unwrap_or(page) };
    let mut target = PathBuf::new();
    for part in start.join(path).components() {
        match part {
            Component::ParentDir => drop(target.pop()),
            Component::CurDir => {}
            part => target.push(part),
        }
    }
    target
}

/// Returns the targets of inline links, images and reference definitions, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let defined = definitions(text).into_iter().map(|(line, _, target)| (line, target));
    let mut found: Vec<_> = inline(text).into_iter().chain(defined).collect();
    found.sort_by_key(|(line, _)| *line);
    found
}

/// Returns the targets of inline links and images outside of code, with their line numbers.
pub(super) fn inline(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        found.extend(line.split("](").skip(1).filter_map(target).map(|link| (number, link.to_owned())));
    }
    found
}

/// Returns the reference definitions: line number, label and target.
fn definitions(text: &str) -> Vec<(usize, String, String)> {
    let of_line = |(number, line): (usize, &str)| {
        let (label, after) = line.trim_start().strip_prefix('[')?.split_once("]: ")?;
        Some((number, label.to_owned(), target(after)?.to_owned()))
    };
    prose(text).filter_map(of_line).collect()
}

/// The target of a link: the text before the closing parenthesis or a title.
fn target(after: &str) -> Option<&str> {
    let end = after.find(|c: char| c == ')' || c.is_whitespace()).unwrap_or(after.len());
    let target = after[..end].trim_start_matches('<').trim_end_matches('>');
    (!target.is_empty()).then_some(target)
}

/// Returns the anchors of a page's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = HashMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let times = seen.entry(slug.clone()).or_insert(0_u32);
        anchors.push(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    anchors
}

/// Numbered lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((i + 1, line)),
            _ => {}
        }
        None
    })
}

/// Empties code spans, in which a link has no effect.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# The *gate*: `open`, or not?
See [`the code`](Cargo.toml), [a](#here) and ![b](<no.png> \"title\"); `[c](code)` is code.
```rust
let [d](fenced) = 1;
```
[ref]: ../xtask/src/main.rs
## Here
## Here
[web](https://example.org/x) [mail](mailto:a@example.org)
[up](/README.md) [both](Cargo.toml#x)
";

    #[test]
    fn links_are_found_with_their_lines_and_code_is_skipped() {
        let found = links(PAGE);
        let found: Vec<_> = found.iter().map(|(line, link)| (*line, link.as_str())).collect();
        let expected = [
            (2, "Cargo.toml"),
            (2, "#here"),
            (2, "no.png"),
            (6, "../xtask/src/main.rs"),
            (9, "https://example.org/x"),
            (9, "mailto:a@example.org"),
            (10, "/README.md"),
            (10, "Cargo.toml#x"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(anchors(PAGE), ["the-gate-open-or-not", "here", "here-1"]);
    }

    #[test]
    fn dead_links_are_reported_with_page_line_and_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[good](Cargo.toml) [dead](nowhere.md)\n[worse](#nothing)\n[fine](/src/main.rs)\n# Title\n[t](#title)\n";
        let expected = ["page.md:1: nowhere.md: no such file", "page.md:2: #nothing: no such heading"];
        assert_eq!(dead(root, Path::new("page.md"), text), expected);
    }
}
