//! The machine that measures.

use std::process::Command;
use std::{fs, thread};

use anyhow::{Context as _, Result};

/// The processor, the number of its cores and the version of the compiler, for the text above a table.
pub fn machine() -> Result<String> {
    let rustc = Command::new("rustc").arg("--version").output().context("cannot start rustc")?;
    let rustc = String::from_utf8_lossy(&rustc.stdout);
    Ok(format!("{}, {} cores, {}", processor(), thread::available_parallelism()?, rustc.trim()))
}

/// The model of the processor, where Linux names it.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}
