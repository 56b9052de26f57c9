//! What the commands share that run until a signal arrives.

pub(crate) mod admin;
pub(crate) mod descriptors;
pub(crate) mod documents;
pub(crate) mod log;
pub(crate) mod readiness;
pub(crate) mod redis;
pub(crate) mod signals;
pub(crate) mod store;
pub(crate) mod store_name;
pub(crate) mod tls;

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use portcullis_log::codes;
use portcullis_server::{Finished, ServeError};
use serde_json::Value;

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

/// Waits for what a command does in one thread.
pub(crate) fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(work)
}

/// Writes a line to standard output that reports the start of the service, with the fields of `started`.
pub(crate) fn announce(mut started: Value, rules: &Path, store: &store::StoreArguments) {
    started["event"] = "started".into();
    started["rules"] = rules.display().to_string().into();
    started["store"] = store.shown().into();
    started["pid"] = std::process::id().into();
    started["version"] = env!("CARGO_PKG_VERSION").into();
    let mut out = io::stdout().lock();
    // The reader may have gone; the service goes on.
    let _ = writeln!(out, "{started}").and_then(|()| out.flush());
}

/// The error with the flag that would allow what it refuses.
pub(crate) fn with_flag(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Exposed { place, .. } => anyhow!("{error} by --allow-unauthenticated {place}"),
        error => error.into(),
    }
}

/// Logs what was lost at the end of a service. Returns whether everything was finished.
pub(crate) fn report(finished: Finished) -> bool {
    if finished.cut_off > 0 {
        tracing::warn!(code = %codes::REQUESTS_CUT_OFF, connections = finished.cut_off, "requests in progress were cut off: a longer --drain-timeout lets them finish");
    }
    if finished.unsettled > 0 {
        tracing::warn!(
            code = %codes::SETTLEMENTS_LEFT,
            settlements = finished.unsettled,
            "settlements were not made: their units stay charged"
        );
    }
    finished.cut_off == 0 && finished.unsettled == 0
}
