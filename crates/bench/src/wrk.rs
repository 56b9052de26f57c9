//! The load generator `wrk`.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Whether the program is installed.
pub fn is_installed() -> bool {
    Command::new("wrk").arg("--version").output().is_ok()
}

/// Requests per second of a server, by one thread with 32 connections that are kept. All responses have to be successes, or none.
pub fn rate(address: SocketAddr, header: &str, seconds: u32, are_successes: bool) -> Result<f64> {
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", "1", "--connections", "32", "--header", header, "--duration"]);
    let output = wrk.arg(format!("{seconds}s")).arg(format!("http://{address}/")).output()?;
    let report = String::from_utf8_lossy(&output.stdout);
    let are_others = report.contains("Non-2xx or 3xx responses:");
    ensure!(are_others != are_successes, "other responses than expected:\n{report}");
    ensure!(!report.contains("Socket errors:"), "connections have failed:\n{report}");
    let rate = report.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate = rate.with_context(|| format!("wrk reported no rate:\n{report}"))?;
    Ok(rate.trim().parse()?)
}
