//! Errors of calls as errors of the store.

use std::borrow::Cow;
use std::time::Duration;

use portcullis_core::{StoreError, StoreErrorKind};

use super::Inner;
use crate::protocol::value::Value;
use crate::transport::{CallError, Transport as _};

impl Inner {
    /// What a call to the node of a slot has brought, with the error of the store, which is counted, and its outage.
    pub(super) fn explained(&self, slot: u16, reply: Result<Value, CallError>) -> Result<Value, StoreError> {
        reply.map_err(|error| {
            let explained = match &error {
                CallError::Moving(reply) if reply.starts_with("MOVED") && !self.connection.is_cluster() => {
                    StoreError::new(StoreErrorKind::Unsupported, NODE_OF_CLUSTER)
                }
                error => store_error(error),
            };
            self.connection.stats().count_error(explained.kind());
            with_outage(explained, self.connection.availability(Some(slot)).outage)
        })
    }
}

/// Adds for how long there has been an outage. An overload is no outage, whatever the server does.
pub(super) fn with_outage(error: StoreError, outage: Option<Duration>) -> StoreError {
    match outage {
        Some(outage) if !error.kind().is_overload() => error.with_outage(outage),
        _ => error,
    }
}

pub(super) fn store_error(error: &CallError) -> StoreError {
    match error {
        CallError::Unavailable(Cow::Borrowed(fixed)) => StoreError::new(StoreErrorKind::Unavailable, *fixed),
        error => StoreError::new(error.kind(), error.to_string()),
    }
}

const NODE_OF_CLUSTER: &str = "the server is a node of a cluster and has only some of the keys: use redis-cluster:// or \
    rediss-cluster:// in the url";
