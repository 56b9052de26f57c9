//! Captures the log of the layer.

use std::io::Write;
use std::sync::{Arc, Mutex, Once, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
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

/// Captures the log of this thread until the guard is dropped.
pub(crate) fn log() -> (Log, tracing::subscriber::DefaultGuard) {
    static GLOBAL_SUBSCRIBER: Once = Once::new();

    // Otherwise a line that another test logs first, without a subscriber, may be disabled for all of them.
    GLOBAL_SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
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
