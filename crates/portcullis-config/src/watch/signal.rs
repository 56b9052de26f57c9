//! SIGHUP, where there is one.

use super::WatchError;

/// The signals that ask for a reload.
pub(super) struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    #[cfg(unix)]
    pub(super) fn new() -> Result<Self, WatchError> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signal: Some(signal(SignalKind::hangup()).map_err(WatchError::Signal)?) })
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> Result<Self, WatchError> {
        Ok(Self::none())
    }

    pub(super) fn none() -> Self {
        Self {
            #[cfg(unix)]
            signal: None,
        }
    }

    /// Waits for the next signal, which never comes where there is none.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
