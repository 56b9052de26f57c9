//! What a first program costs to build: crates, time and bytes, beside the same program on another layer: `cargo xtask bench hello`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use portcullis_bench::{BenchOptions, machine};

/// A program with a limit on one route.
struct Hello {
    name: &'static str,
    dependencies: &'static str,
    /// Makes `layer`.
    layer: &'static str,
}

const PROGRAMS: [Hello; 3] = [
    Hello { name: "axum alone", dependencies: "", layer: "let layer = tower_layer::Identity::new();" },
    Hello {
        name: "portcullis",
        dependencies: "portcullis = { path = \"ROOT/crates/portcullis\" }\n",
        layer: "use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};\n    \
                let search = Policy::gcra(\"search\", Quota::per_second(10).burst(20));\n    \
                let layer = Limiter::memory().layer(search.by(ClientIp::peer()));",
    },
    Hello {
        name: "tower_governor",
        dependencies: "tower_governor = { version = \"0.8\", default-features = false, features = [\"axum\"] }\n",
        layer: "use tower_governor::governor::GovernorConfigBuilder;\n    \
                let config = GovernorConfigBuilder::default().per_millisecond(100).burst_size(20).use_headers().finish();\n    \
                let layer = tower_governor::GovernorLayer::new(config.ok_or(\"no limit\")?);",
    },
];

/// Builds each program anew, in a release build, and prints the table.
fn main() -> Result<()> {
    let options = BenchOptions::parse();
    println!("{}", options.heading("hello", &format!("{}.", machine()?)));
    println!("| program | crates | build | bytes of the program |\n|---|---:|---:|---:|");
    for program in &PROGRAMS {
        let folder = program.write()?;
        let (crates, name) = (crates(&folder)?, program.name);
        let built = if options.quick { "| | |".to_owned() } else { build(&folder)? };
        println!("| {name} | {crates} {built}");
    }
    Ok(())
}

/// Returns the time and the bytes, as cells of the table.
fn build(folder: &Path) -> Result<String> {
    let target = folder.join("target");
    if target.exists() {
        fs::remove_dir_all(&target).context("cannot remove the former build")?;
    }
    let started = Instant::now();
    let status = cargo(folder, "build --quiet --release --target-dir target").status()?;
    ensure!(status.success(), "the program in {} does not compile", folder.display());
    let seconds = started.elapsed().as_secs_f64();
    let bytes = fs::metadata(target.join("release/hello")).context("the program was not built")?.len();
    Ok(format!("| {seconds:.0} s | {bytes} |"))
}

/// The number of crates in the program, itself left out.
fn crates(folder: &Path) -> Result<usize> {
    let tree = cargo(folder, "tree --edges normal --prefix none --format {p}").output()?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8_lossy(&tree.stdout);
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    Ok(lines.filter(|line| !line.starts_with("hello ")).collect::<BTreeSet<_>>().len())
}

fn cargo(folder: &Path, words: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(words.split(' ')).current_dir(folder);
    command
}

impl Hello {
    /// Writes the program into a folder of its own, with the versions of the other measurements.
    fn write(&self) -> Result<PathBuf> {
        let root = std::env::current_dir()?;
        let folder = root.join("target/hello").join(self.name.replace(' ', "-"));
        fs::create_dir_all(folder.join("src")).context("cannot make a folder for the program")?;
        let dependencies = self.dependencies.replace("ROOT", &root.display().to_string());
        fs::write(folder.join("Cargo.toml"), format!("{HEAD}{dependencies}{PROFILE}"))?;
        fs::write(folder.join("src/main.rs"), MAIN.replace("LAYER", self.layer))?;
        fs::copy("crates/bench/peers/Cargo.lock", folder.join("Cargo.lock"))
            .context("cannot copy the versions of the dependencies: run it in the root of the workspace")?;
        Ok(folder)
    }
}

const HEAD: &str = r#"[workspace]

[package]
name = "hello"
version = "0.0.0"
edition = "2024"

[dependencies]
axum = { version = "0.8", default-features = false, features = ["http1", "tokio"] }
tokio = { version = "1", features = ["net", "rt-multi-thread", "macros"] }
tower-layer = "0.3"
"#;

const PROFILE: &str = "\n[profile.release]\nstrip = true\n";

const MAIN: &str = r#"use std::net::SocketAddr;

use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    LAYER
    let app = Router::new().route("/", get(|| async { "hello" }).layer(layer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
"#;
