//! Checks that the WebAssembly of the playground is made of the sources as they are, and small.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};

use super::dependencies::paths_from;
use super::{code, files, is_test, read};
use crate::workspace::Workspace;

/// Returns one line if it was made of other sources or is too large.
pub(super) fn violations(workspace: &Workspace) -> Result<Vec<String>> {
    let packed = fs::read(workspace.root.join(PROGRAM)).with_context(|| format!("cannot read {PROGRAM}"))?;
    let mut program = Vec::new();
    GzDecoder::new(packed.as_slice())
        .read_to_end(&mut program)
        .with_context(|| format!("cannot unpack {PROGRAM}"))?;
    let mut violations = Vec::new();
    if packed.len() > MOST {
        violations.push(format!("{PROGRAM}: {} bytes, at most {MOST}", packed.len()));
    }
    if !program.ends_with(&hash(workspace)?) {
        violations.push(format!("{PROGRAM}: it is of other sources; `cargo xtask wasm` builds it anew"));
    }
    Ok(violations)
}

/// The hash of the sources of the playground's engine: of the code, without comments and tests, of all crates that it is made
/// of, and of how they are built.
pub(crate) fn hash(workspace: &Workspace) -> Result<Vec<u8>> {
    let mut hash = Sha256::new();
    for file in sources(workspace)? {
        let text = read(&workspace.root, &file)?;
        let text = if file.extension().is_some_and(|end| end == "rs") { code(&text) } else { text };
        hash.update(file.display().to_string());
        hash.update(text);
    }
    let manifest = read(&workspace.root, Path::new("Cargo.toml"))?;
    hash.update(
        manifest.split("[profile.wasm]").nth(1).and_then(|rest| rest.split('[').next()).unwrap_or_default(),
    );
    Ok(hash.finalize().to_vec())
}

/// The manifests of the crates, and what is compiled of them.
fn sources(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let packages = &workspace.packages;
    let below = paths_from(packages, ENGINE, |dependency| !dependency.optional);
    let names: Vec<_> = below.iter().filter_map(|path| path.last().copied()).chain([ENGINE]).collect();
    let members = packages.iter().filter(|package| names.contains(&package.name.as_str()));
    let folders: Vec<_> = members.filter_map(|package| package.manifest_path.parent()).collect();
    let is_source = |file: &PathBuf| {
        let path = workspace.root.join(file);
        folders.iter().any(|folder| {
            let inside = path.strip_prefix(folder).ok();
            let is_manifest = inside == Some(Path::new("Cargo.toml"));
            let is_compiled = inside.is_some_and(|inside| inside.starts_with("src"))
                && path.extension().is_some_and(|end| end == "rs" || end == "json");
            (is_manifest || is_compiled) && !is_test(file)
        })
    };
    Ok(files(&workspace.root)?.into_iter().filter(is_source).collect())
}

/// The program, packed, which the page unpacks.
pub(crate) const PROGRAM: &str = "playground/page/playground.wasm.gz";
/// The package that is built.
pub(crate) const ENGINE: &str = "portcullis-playground";
/// The most bytes of the program.
const MOST: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_is_made_of_what_decides() {
        let sources = sources(&Workspace::load().unwrap()).unwrap();
        let has = |file: &str| sources.contains(&PathBuf::from(file));
        assert!(has("playground/engine/src/lib.rs") && has("playground/engine/Cargo.toml"));
        assert!(
            has("crates/portcullis-core/src/algorithm/meter.rs")
                && has("crates/portcullis-shed/src/limit.rs")
        );
        assert!(!has("crates/portcullis-core/src/algorithm/meter/tests.rs"));
        assert!(!sources.iter().any(|file| file.starts_with("crates/portcullis-tower")));
    }
}
