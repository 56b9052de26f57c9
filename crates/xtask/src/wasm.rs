//! `cargo xtask wasm`: the engine of the playground as WebAssembly.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use zopfli::{Format, Options};

use crate::cmd::Cmd;
use crate::test::rules::playground::{ENGINE, PROGRAM, hash};
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct WasmOptions {
    /// Leaves the file in the folder of builds, to be compared with the one beside the page, if there is a compiler
    #[arg(long)]
    anew: bool,
}

/// Builds the engine, and packs it beside the page.
pub(crate) fn run(options: &WasmOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    let command = command(&workspace.root);
    if !options.anew {
        return build(&workspace, command?, Path::new(PROGRAM));
    }
    let Ok(command) = command else {
        println!("NOT BUILT ANEW: the engine of the playground, for which there is no compiler");
        return Ok(());
    };
    build(&workspace, command, &workspace.target("wasm").join("playground.wasm.gz"))
}

/// Builds the engine, appends the hash of its sources, and packs it.
fn build(workspace: &Workspace, command: Cmd, packed_to: &Path) -> Result<()> {
    let target = workspace.target("wasm");
    command
        .args("rustc --locked --lib --crate-type cdylib --profile wasm --target")
        .args(TARGET)
        .args("--package")
        .args(ENGINE)
        .args("--target-dir")
        .path(&target)
        .run(&workspace.root)?;
    let file = shrink(&workspace.root, &target)?;
    let mut program = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    program.extend(section(&hash(workspace)?));
    let mut packed = Vec::new();
    zopfli::compress(Options::default(), Format::Gzip, program.as_slice(), &mut packed)?;
    let name = packed_to.display();
    fs::write(workspace.root.join(packed_to), &packed).with_context(|| format!("cannot write {name}"))?;
    println!("{name}: {} bytes, {} unpacked", packed.len(), program.len());
    Ok(())
}

/// A cargo that builds for WebAssembly: of rustup, or of Debian, which has the sources of the standard library instead of the target.
fn command(root: &Path) -> Result<Cmd> {
    let installed = Cmd::new("rustup").args("target list --installed").output(root);
    if installed
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line == TARGET))
    {
        return Ok(Cmd::cargo());
    }
    let Some(linker) = linker() else { bail!("{MISSING}") };
    if !Path::new(DEBIAN_SOURCES).exists() || !Path::new(DEBIAN_CARGO).exists() {
        bail!("{MISSING}");
    }
    // It has no target, and compiles the standard library with what a compiler from nightly allows.
    let cargo = Cmd::new(DEBIAN_CARGO)
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTC_BOOTSTRAP", "1")
        // A panic ends the engine in any case, and its message is not shown.
        .env("RUSTFLAGS", "-Cpanic=immediate-abort -Zunstable-options -Zlocation-detail=none")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker.display().to_string());
    Ok(cargo.args("-Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size"))
}

/// The program that was built, a fifth smaller where Binaryen is installed.
fn shrink(root: &Path, target: &Path) -> Result<PathBuf> {
    let built = root.join(target).join(TARGET).join("wasm").join("portcullis_playground.wasm");
    if Cmd::new("wasm-opt").args("--version").output(root).is_err() {
        println!("NOT SHRUNK: there is no `wasm-opt`, which the package `binaryen` has");
        return Ok(built);
    }
    let shrunk = root.join(target).join("playground.wasm");
    let features = ["bulk-memory", "mutable-globals", "nontrapping-float-to-int", "sign-ext"];
    let enabled = features.map(|feature| format!("--enable-{feature}")).join(" ");
    Cmd::new("wasm-opt")
        .args(&enabled)
        .args("-Oz --merge-similar-functions -Oz --output")
        .path(&shrunk)
        .path(&built)
        .run(root)?;
    Ok(shrunk)
}

/// The linker of the newest LLVM in Debian's folders.
fn linker() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut linkers: Vec<_> =
        versions.map(|folder| folder.join("bin/wasm-ld")).filter(|linker| linker.exists()).collect();
    linkers.sort();
    linkers.pop()
}

/// A custom section with a name and the hash, of less than 128 bytes together.
fn section(hash: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).expect("names and hashes are short");
    let name = SECTION.as_bytes();
    [&[0, length(name) + length(hash) + 1, length(name)], name, hash].concat()
}

const TARGET: &str = "wasm32-unknown-unknown";
const SECTION: &str = "sources";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std";
const MISSING: &str = "nothing here builds WebAssembly: run `rustup target add wasm32-unknown-unknown`, or on Debian `apt-get install \
                       rustc-web cargo-web rust-web-src lld-19 binaryen`";
