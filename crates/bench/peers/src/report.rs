//! What a reader needs in order to repeat the measurement.

use std::process::Command;
use std::{fs, thread};

use anyhow::{Context as _, Result};

use crate::Options;
use crate::scale::Scale;

/// The command, the machine and the versions, as Markdown.
pub(crate) fn header(options: &Options, scale: &Scale) -> Result<String> {
    let rustc = Command::new("rustc").arg("--version").output().context("cannot start rustc")?;
    let versions = PEERS.map(|name| format!("{name} {}", version(name))).join(", ");
    let warning = if options.quick { "\n\nA smoke run: these figures mean nothing." } else { "" };
    Ok(format!(
        "`{options}`\n\n{}, {} cores, {}; {versions}.\n\nMedians of {} interleaved rounds. A ratio is that of the two cases in \
         the same round.{warning}\n",
        processor(),
        thread::available_parallelism()?,
        String::from_utf8_lossy(&rustc.stdout).trim(),
        scale.rounds,
    ))
}

/// The model of the processor, where Linux names it.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

/// The version of a package in the lock file.
fn version(package: &str) -> &'static str {
    let name = format!("\nname = \"{package}\"\nversion = \"");
    let after = LOCK.split_once(&name).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default()
}

const LOCK: &str = include_str!("../Cargo.lock");
const PEERS: [&str; 5] = ["governor", "tower_governor", "axum-governor", "throttlecrab", "fred"];
