//! What only the owner can fill in before a release.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::super::rules;
use crate::cmd::Cmd;
use crate::workspace::{Package, Workspace};

/// Returns one line for each thing that is missing.
pub(super) fn missing(workspace: &Workspace) -> Result<Vec<String>> {
    let facade = workspace.packages.iter().find(|package| package.name == FACADE).context("no facade")?;
    let changelog = rules::read(&workspace.root, Path::new(CHANGELOG))?;
    let mut missing = addresses(facade);
    missing.extend(undated(&changelog, &facade.version));
    let changes = Cmd::new("git").args("status --porcelain").read(&workspace.root)?;
    if !changes.is_empty() {
        missing.push("changes that are not committed: a release is of a commit".to_owned());
    }
    Ok(missing)
}

fn addresses(facade: &Package) -> Vec<String> {
    let mut missing = Vec::new();
    if facade.repository.as_deref().unwrap_or_default().is_empty() {
        missing.push(
            "`repository` in Cargo.toml is empty: write the address of the repository there".to_owned(),
        );
    }
    // Names that end so are reserved, and never lead anywhere.
    if facade.homepage.as_deref().is_none_or(|homepage| homepage.is_empty() || homepage.ends_with(".example"))
    {
        missing
            .push("`homepage` in Cargo.toml leads nowhere: write the address of the book there".to_owned());
    }
    missing
}

fn undated(changelog: &str, version: &str) -> Option<String> {
    let heading = changelog.lines().find(|line| line.starts_with("## ")).unwrap_or_default();
    let date =
        heading.strip_prefix("## ")?.strip_prefix(version).map(|rest| rest.trim().trim_matches(['(', ')']));
    let is_date = |date: &str| date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
    (!date.is_some_and(is_date)).then(|| {
        format!("{CHANGELOG} begins with `{heading}`: write `## {version} (2026-12-31)`, with the day")
    })
}

const FACADE: &str = "portcullis";
const CHANGELOG: &str = "CHANGELOG.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_reserved_addresses_are_missing() {
        let package = |repository: &str, homepage: &str| Package {
            repository: Some(repository.to_owned()),
            homepage: Some(homepage.to_owned()),
            ..Package::default()
        };
        assert_eq!(addresses(&package("", "https://portcullis.example")).len(), 2);
        assert_eq!(addresses(&package("https://example.org/a", "https://example.org/book")), [""; 0]);
    }

    #[test]
    fn first_heading_has_version_and_day() {
        assert_eq!(undated("# Changelog\n\n## 0.1.0 (2026-12-31)\n", "0.1.0"), None);
        for heading in ["## 0.1.0 (unreleased)", "## Unreleased", "## 0.0.9 (2026-12-31)"] {
            let text = format!("# Changelog\n\n{heading}\n\n## 0.1.0 (2026-12-31)\n");
            assert!(undated(&text, "0.1.0").is_some_and(|why| why.contains(heading)), "{heading}");
        }
    }
}
