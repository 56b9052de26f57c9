//! The documentation of all crates, and the pages of the facade as a user reads them on docs.rs.
//!
//! The facade shows items of other crates as its own. Their examples have to be programs of somebody who depends on the facade alone, and
//! their links must not lead to items that the facade does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::rules;
use super::run::Size;
use crate::workspace::{Package, Workspace};

/// Builds the documentation without warnings, and checks the pages of the facade.
pub(super) fn check(workspace: &Workspace, size: Size) -> Result<()> {
    // The whole workspace even without its programs: the dependencies then have the features of the step `lint`, which
    // has checked them. `--lib` ignores `doc = false`, and the interleavings have the name of the memory store.
    let targets = if size == Size::Full { "" } else { "--lib --exclude portcullis-memory-interleavings" };
    let root = &workspace.root;
    workspace
        .cargo("doc --locked --workspace --no-deps --all-features")
        .args(targets)
        .env("RUSTDOCFLAGS", "-D warnings")
        .run(root)?;
    check_facade(workspace)
}

/// Builds the facade alone, as docs.rs does. In a folder of its own, where no pages of other crates are: rustdoc would link to them.
fn check_facade(workspace: &Workspace) -> Result<()> {
    let (root, folder) = (&workspace.root, workspace.target("facade"));
    let docs = root.join(&folder).join("doc");
    if docs.exists() {
        fs::remove_dir_all(&docs).with_context(|| format!("cannot remove {}", docs.display()))?;
    }
    workspace
        .cargo("doc --locked --no-deps --all-features --package portcullis --target-dir")
        .path(&folder)
        // What is compiled is the same, and stays where it is. An older cargo compiles it again.
        .env("CARGO_BUILD_BUILD_DIR", workspace.shared_target().display().to_string())
        .env("RUSTDOCFLAGS", "-D warnings")
        .run(root)?;
    let names = inner_crates(&workspace.packages);
    let mut broken = Vec::new();
    let mut pages = 0;
    for file in rules::files(&docs)?.iter().filter(|file| is_page(file)) {
        let html = rules::read(&docs, file)?;
        let found = violations(&html, &names, |link| {
            docs.join(file).parent().is_some_and(|at| at.join(link).exists())
        });
        broken.extend(found.into_iter().map(|what| format!("{}: {what}", file.display())));
        pages += 1;
    }
    ensure!(pages > 0, "no page is in {}", docs.display());
    if !broken.is_empty() {
        bail!("the pages of the facade are for users who have no other crate\n    {}", broken.join("\n    "));
    }
    println!("checked the examples and the links of {pages} pages of the facade");
    Ok(())
}

/// Whether the file is a page about the facade, and not one of its sources.
fn is_page(file: &Path) -> bool {
    file.starts_with("portcullis") && file.extension().is_some_and(|extension| extension == "html")
}

/// The crates of the workspace that the facade is made of, as code names them.
fn inner_crates(packages: &[Package]) -> BTreeSet<String> {
    let mut names = vec!["portcullis"];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let package = packages.iter().find(|package| package.name == *name);
        let dependencies = package.iter().flat_map(|package| &package.dependencies);
        let members = dependencies
            .filter(|dependency| !dependency.is_dev() && dependency.name.starts_with("portcullis-"));
        let new: Vec<_> =
            members.map(|member| member.name.as_str()).filter(|name| !names.contains(name)).collect();
        names.extend(BTreeSet::from_iter(new));
        next += 1;
    }
    names.iter().skip(1).map(|name| name.replace('-', "_")).collect()
}

/// Returns one line for each example that names another crate, and for each dead link. `exists` is called with links to files.
fn violations(html: &str, inner: &BTreeSet<String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    // The implementations for all types come last. They have the docs of other crates, for which their links were made.
    let html = html.split(r#"id="blanket-implementations""#).next().unwrap_or_default();
    let (examples, prose) = split(html);
    let named = inner.iter().filter(|name| examples.iter().any(|example| names(example, name)));
    let mut broken: Vec<_> =
        named.map(|name| format!("an example names {name}: write the path of the facade")).collect();
    for link in after(&prose, r#" href=""#, '"') {
        let file = link.split(['#', '?']).next().unwrap_or_default();
        if !file.is_empty() && !has_scheme(file) && !exists(file) {
            broken.push(format!("the link to {link} is dead: the facade has no such item"));
        }
    }
    let unresolved = after(&prose, "[<code>", '<').map(str::to_owned);
    for item in unresolved.filter(|item| !OF_OTHERS.contains(&item.as_str())) {
        broken.push(format!("the link [`{item}`] is dead: the facade has no such item"));
    }
    broken.sort();
    broken.dedup();
    broken
}

/// The text of the examples in Rust, and the page without them and without its scripts.
fn split(html: &str) -> (Vec<String>, String) {
    let (mut examples, mut prose) = (Vec::new(), String::new());
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once("<pre class=\"rust rust-example-rendered\">") {
        let (code, after) = tag.split_once("</pre>").unwrap_or((tag, ""));
        prose += before;
        examples.push(text(code));
        rest = after;
    }
    prose += rest;
    (examples, prose)
}

/// The text of a piece of a page, without its tags.
fn text(html: &str) -> String {
    let mut pieces = html.split('<');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('>').map_or("", |(_, text)| text))
}

/// Whether a link is to the web, or contains what it shows. The paths of items, `a::b`, are links that rustdoc has not resolved.
fn has_scheme(link: &str) -> bool {
    link.split_once(':').is_some_and(|(_, rest)| !rest.starts_with(':'))
}

/// What stands behind each `start`, until `end`.
fn after<'a>(text: &'a str, start: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(end).next())
}

/// Whether the crate is named in the code: `portcullis_shed_total` is another name.
fn names(code: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name)
        .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + name.len()..].starts_with(is_part))
}

/// Labels in the docs of other crates, which rustdoc shows with an implementation of their traits: `bitflags::Flags`.
const OF_OTHERS: [&str; 3] = ["Flags::insert", "Flags::remove", "Self::FLAGS"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn example(code: &str) -> String {
        format!(
            r#"<p>A</p><div><pre class="rust rust-example-rendered"><code>{code}</code></pre></div><p>B</p>"#
        )
    }

    fn found(html: &str) -> Vec<String> {
        let inner = ["portcullis_core", "portcullis_shed"].map(str::to_owned).into();
        violations(html, &inner, |link| link == "struct.Policy.html")
    }

    #[test]
    fn example_with_inner_crate_is_reported() {
        let html = example(r#"<span class="kw">use </span>portcullis_core::{Policy, Quota};"#);
        assert_eq!(found(&html), ["an example names portcullis_core: write the path of the facade"]);
        assert_eq!(found(&example("use portcullis::Policy;")), [""; 0]);
        assert_eq!(found(&example(r#"text.contains("portcullis_shed_total")"#)), [""; 0]);
        assert_eq!(found("<p><code>portcullis_core</code> decides</p>"), [""; 0]);
    }

    #[test]
    fn dead_links_are_reported() {
        let html = r##"<a href="struct.Policy.html#method.gcra">a</a> <a href="#b">b</a> <a href="https://docs.rs/x">c</a>
            <a class="x" href="portcullis_tower::Registry::block">d</a> [<code>Registry::grant</code>]
            <h2 id="blanket-implementations"></h2> <a href="dispatcher">e</a>"##;
        let expected = [
            "the link [`Registry::grant`] is dead: the facade has no such item",
            "the link to portcullis_tower::Registry::block is dead: the facade has no such item",
        ];
        assert_eq!(found(html), expected);
        assert_eq!(found(&example("#[<code>derive</code>]")), [""; 0]);
    }

    #[test]
    fn inner_crates_are_what_facade_is_made_of() {
        let package = |name: &str, dependencies: &[(&str, Option<&str>)]| Package {
            name: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).to_owned(),
                    kind: kind.map(str::to_owned),
                    optional: false,
                })
                .collect(),
            ..Package::default()
        };
        let packages = [
            package(
                "portcullis",
                &[("portcullis-tower", None), ("http", None), ("portcullis-testing", Some("dev"))],
            ),
            package("portcullis-tower", &[("portcullis-core", None)]),
            package("portcullis-core", &[("portcullis", Some("dev"))]),
        ];
        assert_eq!(
            inner_crates(&packages),
            ["portcullis_core", "portcullis_tower"].map(str::to_owned).into()
        );
    }
}
