//! `cargo xtask book`: builds the book and checks it.

mod built;

use std::fs;

use anyhow::{Context as _, Result};

use super::rules::pages::{self, Page};
use crate::tools;
use crate::workspace::Workspace;

/// Builds the book, with its pages as Markdown and a list of them for machines beside it.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root.join(workspace.target("book"));
    let out = folder.join("html");
    // Without the server and the watcher of files, which have most of its dependencies.
    tools::installed("mdbook", "0.5.4", "--no-default-features --features search", workspace)?
        .args("build --dest-dir")
        .path(&folder)
        .run(&workspace.root)?;
    let pages = pages::load(&workspace.root)?;
    for page in &pages {
        fs::copy(folder.join("markdown").join(&page.path), out.join(&page.path))
            .with_context(|| format!("cannot copy {}", page.path.display()))?;
    }
    fs::write(out.join("llms.txt"), list(&pages)).context("cannot write llms.txt")?;
    built::check(&out)?;
    println!("the book: {}", out.join("index.html").display());
    Ok(())
}

/// The pages with what each is for, in the form that <https://llmstxt.org> describes.
fn list(pages: &[Page]) -> String {
    let mut lines = vec![HEAD.to_owned()];
    let mut part = "";
    for page in pages {
        if part != page.part {
            part = &page.part;
            lines.push(format!("\n## {part}\n"));
        }
        lines.push(format!("- [{}]({}): {}", page.title, page.path.display(), page.lead()));
    }
    lines.join("\n") + "\n"
}

const HEAD: &str = "# Portcullis\n\n\
                    > Rate limiting for Axum, Tonic and other tower services in Rust: exact, in memory or in Redis.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_parts_titles_and_leads() {
        let page = |part: &str, path: &str| Page {
            part: part.to_owned(),
            title: "A".to_owned(),
            path: path.into(),
            text: "# A\n\nYou can a.\n".to_owned(),
        };
        let list = list(&[page("", "a.md"), page("Start", "start/b.md")]);
        assert!(
            list.ends_with("\n- [A](a.md): You can a.\n\n## Start\n\n- [A](start/b.md): You can a.\n"),
            "{list}"
        );
    }
}
