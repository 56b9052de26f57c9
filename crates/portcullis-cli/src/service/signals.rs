//! Signals that end the service.

use std::io;
use std::process;
use std::sync::Arc;

use portcullis_log::codes;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

/// The signals of the process, which are noticed from now on.
#[derive(Debug)]
pub(crate) struct Signals(watch::Receiver<bool>);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let (first, noticed) = watch::channel(false);
        let mut ending = Ending::new()?;
        tokio::spawn(async move {
            ending.next().await;
            tracing::info!("a signal has arrived: the service finishes its requests, and ends");
            first.send_replace(true);
            ending.next().await;
            tracing::warn!(code = %codes::SECOND_SIGNAL, "a second signal has arrived: the service ends at once");
            process::exit(ENDED_BY_SIGNAL);
        });
        Ok(Self(noticed))
    }

    /// Ends at the first signal.
    pub(crate) async fn shutdown(mut self) {
        // The task that sends lives until the process ends.
        let _ = self.0.wait_for(|noticed| *noticed).await;
    }
}

/// SIGTERM and SIGINT.
#[cfg(unix)]
struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Ending {
    fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Control-C.
#[cfg(not(unix))]
struct Ending;

#[cfg(not(unix))]
impl Ending {
    #[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Is notified of each SIGHUP, where there is such a signal.
pub(crate) fn hangups() -> io::Result<Arc<Notify>> {
    let noticed = Arc::new(Notify::new());
    #[cfg(unix)]
    {
        let (mut hangup, notified) = (signal(SignalKind::hangup())?, Arc::clone(&noticed));
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                notified.notify_one();
            }
        });
    }
    Ok(noticed)
}

/// The exit code of a service that has not finished its requests.
const ENDED_BY_SIGNAL: i32 = 1;
