//! What is logged of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes one line when the server goes away and one when it is back.
#[derive(Debug)]
pub(super) struct Journal {
    server: String,
    down: AtomicBool,
}

impl Journal {
    pub(super) fn new(server: String) -> Arc<Self> {
        Arc::new(Self { server, down: AtomicBool::new(false) })
    }

    pub(super) fn down(&self, reason: &str) {
        if !self.down.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %self.server, %reason, "redis is unavailable");
        }
    }

    pub(super) fn up(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.server, "redis is available again");
        }
    }
}
