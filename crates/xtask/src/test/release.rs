//! What a release needs: features that build one by one, dependencies that may be shipped, and packages that are
//! complete.

use anyhow::Result;

use super::run::Size;
use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

/// Builds every published crate without features, in full also with each of its features alone and with the default ones, and the
/// quickstart with the features that a newcomer gets.
pub(super) fn check_features(workspace: &Workspace, size: Size) -> Result<()> {
    let features = if size == Size::Full { "--each-feature" } else { "--no-default-features" };
    tools::installed("cargo-hack", "0.6.46", "", workspace)?
        .args("hack check --locked --workspace --ignore-private")
        .args(features)
        .run(&workspace.root)?;
    workspace.cargo("check --locked --package quickstart").run(&workspace.root)
}

/// Checks licences, bans, sources and advisories of dependencies, packs what would be published, and compares with the last release.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let deny = tools::installed("cargo-deny", "0.20.2", "", workspace)?.args("--all-features --locked");
    deny.clone().args("check licenses bans sources").run(root)?;
    // The database is a repository of its own, which not every network reaches.
    let database = deny.clone().args("fetch db").output(root)?;
    if database.status.success() {
        deny.args("check --disable-fetch advisories").run(root)?;
    } else {
        println!("NOT CHECKED: advisories, because their database cannot be had");
    }
    let published = workspace.packages.iter().filter(|package| package.is_published());
    // Without building from the archives: cargo takes the archive of an earlier run for a version that has not changed.
    let package = Cmd::cargo().args("package --locked --allow-dirty --no-verify");
    published.fold(package, |command, member| command.args("--package").word(&member.name)).run(root)?;
    compare_with_last_release(workspace)
}

fn compare_with_last_release(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let tags = Cmd::new("git").args("tag --list v* --sort=-version:refname").read(root)?;
    let Some(last) = tags.lines().next() else {
        println!("NOT CHECKED: there is no release yet, so there is no public API to break");
        return Ok(());
    };
    tools::installed("cargo-semver-checks", "0.44.0", "", workspace)?
        .args("semver-checks --workspace --baseline-rev")
        .args(last)
        .run(root)
}
