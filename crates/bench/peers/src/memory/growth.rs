//! By how much a process grows: the pages that it has in memory, with what an allocator keeps for itself.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::Options;
use crate::options::Limiter;

/// Starts this program once more, in which nothing was allocated before, and returns by how many bytes it has grown.
pub(super) fn of_another_process(limiter: Limiter, options: &Options) -> Result<f64> {
    let mut program = Command::new(std::env::current_exe()?);
    program.args(["memory", "--growth-of", &limiter.to_string()]);
    if options.common.quick {
        program.arg("--quick");
    }
    let output = program.output().context("cannot start the program once more")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "it failed: {}", String::from_utf8_lossy(&output.stderr));
    text.trim().parse().with_context(|| format!("no number: {text}"))
}

/// Prints by how many bytes this process grows while `make` runs, with what it makes.
pub(super) fn print<T>(make: impl FnOnce() -> T) -> Result<()> {
    let before = resident()?;
    let filled = make();
    println!("{}", resident()?.saturating_sub(before));
    drop(filled);
    Ok(())
}

/// The bytes of this process that are in memory.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("only Linux says how large a process is")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("it does not say so")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1_024)
}
