//! What a release needs: features that build one by one, dependencies that may be shipped, and packages that are
//! complete.

mod ready;

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use super::run::Size;
use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::{Package, Workspace};

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
    package(workspace)?;
    compare_with_last_release(workspace)?;
    for what in ready::missing(workspace)? {
        println!("NOT READY TO PUBLISH: {what}");
    }
    Ok(())
}

/// `cargo xtask release`: checks what a release needs, and prints the steps that remain.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let missing = ready::missing(&workspace)?;
    ensure!(missing.is_empty(), "the release is not ready\n    {}", missing.join("\n    "));
    check(&workspace)?;
    let version =
        workspace.packages.iter().find(|package| package.is_published()).map(|package| &*package.version);
    let tag = format!("v{}", version.unwrap_or_default());
    println!(
        "\nall is ready. What remains:\n\n    git tag {tag} && git push origin {tag}\n    cargo publish --workspace"
    );
    Ok(())
}

/// Packs what would be published, and builds each crate from its archive, with the archives of those that it needs.
fn package(workspace: &Workspace) -> Result<()> {
    let published: Vec<_> = workspace.packages.iter().filter(|package| package.is_published()).collect();
    let archive = |member: &Package| format!("{}-{}", member.name, member.version);
    for folder in unpacked()? {
        for member in &published {
            let folder = folder.join(archive(member));
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
                }
                _ => {}
            }
        }
    }
    // One target directory for all, so that they share what they depend on.
    let folder = workspace.target("package");
    let package = Cmd::cargo().args("package --locked --allow-dirty --target-dir").path(&folder);
    // What is built is not run.
    let package = package.env("CARGO_PROFILE_DEV_DEBUG", "0");
    published
        .iter()
        .fold(package, |command, member| command.args("--package").word(&member.name))
        .run(&workspace.root)?;
    for member in published {
        let packed = workspace.root.join(&folder).join("package").join(archive(member));
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            ensure!(
                packed.join(file).exists(),
                "the archive of {} has no {file}: add a link to that of the root",
                member.name
            );
        }
    }
    Ok(())
}

/// Where cargo unpacks archives that are in no registry. It does not unpack one anew that has the version of an earlier one.
fn unpacked() -> Result<Vec<PathBuf>> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(env::home_dir()?.join(".cargo"))).context("there is no home directory")?;
    let Ok(entries) = fs::read_dir(home.join("registry/src")) else { return Ok(Vec::new()) };
    // The folder of a registry begins with its host, which the folder of archives does not have.
    let is_local =
        |folder: &PathBuf| folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-"));
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_local).collect())
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
