//! Captures the log of the layer.

use std::io::Write;
use std::sync::{Arc, Mutex, Once, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines, without those of layers that start.
    pub(crate) fn lines(&self) -> Vec<String> {
        let is_start = |line: &String| line.starts_with("INFO a layer of the rate limiter limits requests");
        self.all_lines().into_iter().filter(|line| !is_start(line)).collect()
    }

    pub(crate) fn all_lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sets a subscriber for all threads. Otherwise a line that another test logs first, without a subscriber, may be disabled for all of
/// them.
pub(crate) fn set_global_subscriber() {
    static GLOBAL_SUBSCRIBER: Once = Once::new();

    GLOBAL_SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Captures the log of this thread until the guard is dropped.
pub(crate) fn log() -> (Log, tracing::subscriber::DefaultGuard) {
    set_global_subscriber();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}
