//! The pages of the book, and what each page has to be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{links, read};

/// A page, in the order of the table of contents.
#[derive(Debug)]
pub(in crate::test) struct Page {
    /// The part of the book, empty before the first one.
    pub(in crate::test) part: String,
    pub(in crate::test) title: String,
    /// Relative to the folder of the book.
    pub(in crate::test) path: PathBuf,
    pub(in crate::test) text: String,
}

impl Page {
    /// The first paragraph: what a reader can do after the page.
    pub(in crate::test) fn lead(&self) -> String {
        let lines = self.text.lines().skip(1).skip_while(|line| line.is_empty() || line.starts_with("<!--"));
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        plain(&lines.join(" "))
    }

    fn is_generated(&self) -> bool {
        self.text.lines().take(4).any(|line| line.starts_with(GENERATED))
    }

    /// The bytes that a reader sees: lines of examples that begin with `# ` are tests, and hidden.
    fn visible_bytes(&self) -> usize {
        let mut is_code = false;
        let mut bytes = 0;
        for line in self.text.lines() {
            is_code ^= line.starts_with("```");
            if !is_code || !(line == "#" || line.starts_with("# ")) {
                bytes += line.len() + 1;
            }
        }
        bytes
    }

    fn at(&self, what: &str) -> String {
        format!("{}: {what}", Path::new(FOLDER).join(&self.path).display())
    }
}

/// Reads the table of contents and its pages.
pub(in crate::test) fn load(root: &Path) -> Result<Vec<Page>> {
    let folder = Path::new(FOLDER);
    let contents = read(root, &folder.join(CONTENTS))?;
    let mut part = String::new();
    let mut pages = Vec::new();
    for line in contents.lines().skip(1) {
        if let Some(name) = line.strip_prefix("# ") {
            name.clone_into(&mut part);
        } else if let Some((title, path)) = entry(line) {
            let text = read(root, &folder.join(path))?;
            pages.push(Page { part: part.clone(), title: title.to_owned(), path: path.into(), text });
        }
    }
    Ok(pages)
}

/// The title and the path in a line of the table of contents.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.split_once('[')?.1.split_once("](")?;
    Some((title, rest.split_once(')')?.0))
}

/// Returns one line for each rule that a page breaks. `files` are those of the repository.
pub(super) fn violations(
    root: &Path,
    files: &[PathBuf],
    sources: &[(PathBuf, String)],
) -> Result<Vec<String>> {
    let pages = load(root)?;
    let mut broken = unlisted(&pages, files);
    broken.extend(dead_addresses(&pages, sources));
    for page in &pages {
        broken.extend(faults(page));
    }
    broken.extend(too_long(&pages));
    Ok(broken)
}

fn unlisted(pages: &[Page], files: &[PathBuf]) -> Vec<String> {
    let listed: BTreeSet<_> = pages.iter().map(|page| Path::new(FOLDER).join(&page.path)).collect();
    let is_page = |file: &&PathBuf| {
        file.starts_with(FOLDER)
            && file.extension().is_some_and(|end| end == "md")
            && !file.ends_with(CONTENTS)
    };
    let missing = files.iter().filter(is_page).filter(|file| !listed.contains(*file));
    missing.map(|file| format!("{}: {CONTENTS} does not list this page", file.display())).collect()
}

/// The links from rustdoc to pages that are not in the book.
fn dead_addresses(pages: &[Page], sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut dead = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.starts_with(FACADE)) {
        let direct = text.split("CARGO_PKG_HOMEPAGE\"), \"/").skip(1);
        let named = text.split("book!(\"").skip(1).filter_map(|rest| Some(rest.split_once("\", \"")?.1));
        for rest in direct.chain(named) {
            let name = rest.split('"').next().unwrap_or_default().trim_end_matches(".html");
            if !name.is_empty() && !pages.iter().any(|page| page.path == Path::new(name).with_extension("md"))
            {
                dead.push(format!("{}: the book has no page {name}", file.display()));
            }
        }
    }
    dead
}

fn faults(page: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    let title = page.text.lines().next().unwrap_or_default();
    if title.strip_prefix("# ") != Some(&*page.title) {
        faults.push(page.at(&format!("begin with `# {}`, as the table of contents says", page.title)));
    }
    let lead = page.lead();
    if lead.is_empty() || lead.starts_with(['#', '|', '-', '`', '!']) || lead.len() > MAX_LEAD {
        let rule = format!("say first, in at most {MAX_LEAD} bytes, what a reader can do after the page");
        faults.push(page.at(&rule));
    }
    for (line, link) in links::inline(&page.text) {
        if !links::is_to_the_web(&link) && leaves_the_book(&page.path, &link) {
            faults.push(page.at(&format!("line {line}: {link} is not in the book: write its path as code")));
        }
    }
    faults
}

fn leaves_the_book(page: &Path, link: &str) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    !links::target_file(&Path::new(FOLDER).join(page), path).starts_with(FOLDER)
}

fn too_long(pages: &[Page]) -> Vec<String> {
    let by_hand = || pages.iter().filter(|page| !page.is_generated());
    let total: usize = by_hand().map(Page::visible_bytes).sum();
    let long: Vec<_> = by_hand().filter(|page| page.visible_bytes() > MAX_PAGE).collect();
    let mut broken = Vec::new();
    if total > MAX_TOTAL {
        broken.push(format!("{FOLDER}: {total} bytes are written by hand, at most {MAX_TOTAL}"));
    }
    if long.len() > MAX_LONG {
        let rule =
            format!("longer than {MAX_PAGE} bytes, as are {} others: at most {MAX_LONG}", long.len() - 1);
        broken.extend(long.iter().map(|page| page.at(&rule)));
    }
    broken
}

/// The text without the targets of its links.
fn plain(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let plain = parts.fold(first, |plain, part| plain + part.split_once(')').map_or("", |(_, rest)| rest));
    plain.replace('[', "")
}

const FOLDER: &str = "docs";
/// The crate whose documentation links to the book.
const FACADE: &str = "crates/portcullis/src";
const CONTENTS: &str = "SUMMARY.md";
/// The mark of a page that a test or a command writes.
const GENERATED: &str = "<!-- generated by: ";
const MAX_LEAD: usize = 300;
const MAX_PAGE: usize = 12_000;
/// How many pages may be longer.
const MAX_LONG: usize = 2;
const MAX_TOTAL: usize = 330_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { part: String::new(), title: "A".to_owned(), path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn contents_line_has_title_and_path() {
        assert_eq!(entry("  - [Behind nginx](how-to/nginx.md)"), Some(("Behind nginx", "how-to/nginx.md")));
        assert_eq!(entry("# Start"), None);
    }

    #[test]
    fn lead_is_first_paragraph_without_targets() {
        let text = "# A\n\n<!-- generated by: x -->\n\nAfter this page\nyou [know](b.md) it.\n\nMore.\n";
        let page = page("a.md", text);
        assert_eq!(page.lead(), "After this page you know it.");
        assert!(page.is_generated());
    }

    #[test]
    fn faults_of_page_are_reported() {
        assert_eq!(faults(&page("a.md", "# A\n\nYou can [b](b.md).\n")), [""; 0]);
        let found = faults(&page("start/a.md", "# B\n\n## C\n\n[d](../../CHANGELOG.md) [e](../e.md)\n"));
        let expected = [
            "docs/start/a.md: begin with `# A`, as the table of contents says",
            "docs/start/a.md: say first, in at most 300 bytes, what a reader can do after the page",
            "docs/start/a.md: line 5: ../../CHANGELOG.md is not in the book: write its path as code",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn dead_addresses_are_reported() {
        let text = r#"concat!("[a]: ", env!("CARGO_PKG_HOMEPAGE"), "/a.html") book!("A", "a") book!("B c", "start/b")"#;
        let of = |file: &str| dead_addresses(&[page("a.md", "")], &[(file.into(), text.to_owned())]);
        assert_eq!(
            of("crates/portcullis/src/lib.rs"),
            ["crates/portcullis/src/lib.rs: the book has no page start/b"]
        );
        assert_eq!(of("crates/xtask/src/main.rs"), [""; 0]);
    }

    #[test]
    fn hidden_lines_of_examples_are_not_counted() {
        let text = "# A\n\n```rust\na\n# let _ = a;\n#\n#[b]\n```\n";
        assert_eq!(page("a.md", text).visible_bytes(), text.len() - "# let _ = a;\n#\n".len());
    }

    #[test]
    fn unlisted_pages_are_reported() {
        let files = ["docs/SUMMARY.md", "docs/a.md", "docs/b.md", "docs/c.svg"].map(PathBuf::from);
        let found = unlisted(&[page("a.md", "")], &files);
        assert_eq!(found, ["docs/b.md: SUMMARY.md does not list this page"]);
    }

    #[test]
    fn long_pages_and_long_book_are_reported() {
        let long = || page("a.md", &"a".repeat(MAX_PAGE + 1));
        assert_eq!(too_long(&[long(), long()]), [""; 0]);
        assert_eq!(too_long(&[long(), long(), long()]).len(), 3);
        let book: Vec<_> = (0..28).map(|_| page("a.md", &"a".repeat(MAX_PAGE - 1))).collect();
        assert_eq!(too_long(&book), ["docs: 336000 bytes are written by hand, at most 330000"]);
        let generated = format!("# A\n\n{GENERATED}x -->\n{}", "a".repeat(MAX_TOTAL));
        assert_eq!(too_long(&[page("a.md", &generated)]), [""; 0]);
    }
}
