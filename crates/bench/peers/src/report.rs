//! What a reader needs in order to repeat the measurement.

use anyhow::Result;
use portcullis_bench::machine;

use crate::Options;
use crate::scale::Scale;

/// The command, the machine and the versions, as Markdown.
pub(crate) fn header(options: &Options, scale: &Scale) -> Result<String> {
    let versions = PEERS.map(|name| format!("{name} {}", version(name))).join(", ");
    Ok(options.heading(&format!(
        "{}; {versions}.\n\nMedians of {} interleaved rounds. A ratio is that of the two cases in the same round.",
        machine()?,
        scale.rounds,
    )))
}

/// The version of a package in the lock file.
fn version(package: &str) -> &'static str {
    let name = format!("\nname = \"{package}\"\nversion = \"");
    let after = LOCK.split_once(&name).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default()
}

const LOCK: &str = include_str!("../Cargo.lock");
const PEERS: [&str; 5] = ["governor", "tower_governor", "axum-governor", "throttlecrab", "fred"];
