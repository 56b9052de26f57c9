//! The connections that wait for a place, counted by client.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::places::Client;

/// Has an entry for each client of which a connection waits, and for no other.
#[derive(Debug, Default)]
pub(super) struct WaitingConnections(Mutex<HashMap<Client, usize>>);

/// A connection that waits until this is dropped.
#[derive(Debug)]
pub(super) struct WaitingConnection<'a> {
    all: &'a WaitingConnections,
    client: Option<Client>,
}

impl WaitingConnections {
    /// `None` if `most` of the client wait already. Without a client there is no such bound.
    pub(super) fn begin(&self, client: Option<Client>, most: usize) -> Option<WaitingConnection<'_>> {
        if let Some(client) = client {
            let mut by_client = self.lock();
            let waiting = by_client.get(&client).copied().unwrap_or_default();
            if waiting >= most {
                return None;
            }
            by_client.insert(client, waiting + 1);
        }
        Some(WaitingConnection { all: self, client })
    }

    /// The numbers are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingConnection<'_> {
    fn drop(&mut self) {
        let Some(client) = self.client else { return };
        let mut by_client = self.all.lock();
        if let Some(waiting) = by_client.get_mut(&client) {
            *waiting -= 1;
            if *waiting == 0 {
                by_client.remove(&client);
            }
        }
    }
}
