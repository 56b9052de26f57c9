//! The file descriptors of the process: each connection takes one.

use portcullis_log::codes;

/// Allows the process as many as the system lets it have, and warns if connections may need more. `flags` bound the latter.
pub(crate) fn raise(connections: u64, flags: &str) {
    let needed = connections + OTHERS;
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(allowed) if allowed >= needed => {}
        Ok(allowed) => tracing::warn!(
            code = %codes::FEW_DESCRIPTORS,
            "the process may open {allowed} files, and with {flags} it may need {needed}: beyond that no connection is opened. Raise the hard \
             limit, by `ulimit -Hn`, LimitNOFILE= of systemd or `docker run --ulimit nofile=`, or lower the flags"
        ),
        Err(error) => tracing::warn!(
            code = %codes::DESCRIPTORS_UNKNOWN,
            "the limit of open files cannot be raised ({error}), and with {flags} the process may need {needed}: see `ulimit -n`"
        ),
    }
}

/// Idle connections to an upstream, those of the status and of the store, files, listeners and the runtime.
const OTHERS: u64 = 256;
