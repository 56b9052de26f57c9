//! What the commands share that run until a signal arrives.

pub(crate) mod descriptors;
pub(crate) mod log;
pub(crate) mod signals;
pub(crate) mod store;
pub(crate) mod tls;

use anyhow::Context as _;

/// Runs a service to its end. Returns what it returns: whether everything was finished.
pub(crate) fn run(
    log: log::LogArguments,
    service: impl Future<Output = anyhow::Result<bool>>,
) -> anyhow::Result<bool> {
    log.start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let finished = runtime.block_on(service);
    // Reads of files that block must not hold up the end.
    runtime.shutdown_background();
    finished
}
