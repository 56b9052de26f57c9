//! What a first program costs to build: crates, time and bytes, beside the same program on another layer.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::cmd::Cmd;
use crate::workspace::Workspace;

use super::MANIFEST;

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
        layer: "use portcullis::{ClientIp, Limiter, Policy, Quota};\n    \
                let search = Policy::gcra(\"search\", Quota::per_second(10).burst(20));\n    \
                let layer = Limiter::memory().layer(search).by(ClientIp::peer());",
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
pub(super) fn bench(workspace: &Workspace) -> Result<String> {
    let mut table = String::from(
        "`cargo xtask bench hello`\n\n| program | crates | build | bytes of the program |\n|---|---:|---:|---:|\n",
    );
    for program in &PROGRAMS {
        let folder = program.write(workspace)?;
        let crates = crates(&folder)?;
        let target = folder.join("target");
        if target.exists() {
            fs::remove_dir_all(&target).context("cannot remove the former build")?;
        }
        let started = Instant::now();
        Cmd::cargo().args("build --quiet --release --target-dir target").run(&folder)?;
        let seconds = started.elapsed().as_secs_f64();
        let bytes = fs::metadata(target.join("release/hello")).context("the program was not built")?.len();
        writeln!(table, "| {} | {crates} | {seconds:.0} s | {bytes} |", program.name)?;
    }
    println!("{table}");
    Ok(table)
}

impl Hello {
    /// Writes the program into a folder of its own, with the versions of the other measurements.
    fn write(&self, workspace: &Workspace) -> Result<PathBuf> {
        let folder = workspace.root.join(workspace.target("hello")).join(self.name.replace(' ', "-"));
        fs::create_dir_all(folder.join("src")).context("cannot make a folder for the program")?;
        let dependencies = self.dependencies.replace("ROOT", &workspace.root.display().to_string());
        fs::write(folder.join("Cargo.toml"), format!("{HEAD}{dependencies}{PROFILE}"))?;
        fs::write(folder.join("src/main.rs"), MAIN.replace("LAYER", self.layer))?;
        let lock = workspace.root.join(MANIFEST).with_file_name("Cargo.lock");
        fs::copy(lock, folder.join("Cargo.lock")).context("cannot copy the versions of the dependencies")?;
        Ok(folder)
    }
}

/// The number of crates in the program, itself left out.
fn crates(folder: &Path) -> Result<usize> {
    let tree = Cmd::cargo().args("tree --edges normal --prefix none --format {p}").read(folder)?;
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    Ok(lines.filter(|line| !line.starts_with("hello ")).collect::<BTreeSet<_>>().len())
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
