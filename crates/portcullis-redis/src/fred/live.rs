//! A connected client, and what servers are asked besides running scripts.

use std::sync::Arc;
use std::time::Duration;

use ::fred::clients::Client;
use ::fred::error::Error;
use ::fred::interfaces::ClientLike as _;
use ::fred::types::Value as RawValue;
use bytes::Bytes;
use tokio::sync::watch;

use super::command::{command_options, custom};
use super::value::from_raw;
use crate::protocol::value::Value;
use crate::resilience::liveness::Liveness;

/// A connected client.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(super) client: Client,
    pub(super) liveness: Arc<Liveness>,
    /// Closed when the connection has ended.
    pub(super) closed: watch::Receiver<()>,
}

impl Live {
    /// Whether the client routes in a cluster by itself.
    pub(crate) fn is_clustered(&self) -> bool {
        self.client.is_clustered()
    }

    /// Reads the map of slots.
    pub(crate) async fn cluster_slots(&self, timeout: Duration) -> Result<Value, String> {
        let reply = self.ask("CLUSTER", vec![Bytes::from("SLOTS")], timeout).await;
        reply.map_err(|error| error.details().to_owned())
    }

    /// Reads the server's properties. Returns `None` if there is no reply, or the user may not read them.
    pub(crate) async fn info(&self, timeout: Duration) -> Option<String> {
        let reply = self.ask("INFO", Vec::new(), timeout).await.ok()?;
        reply.as_str().map(str::to_owned)
    }

    async fn ask(&self, name: &'static str, words: Vec<Bytes>, timeout: Duration) -> Result<Value, Error> {
        let client = self.client.with_options(&command_options(timeout));
        client.custom::<RawValue, Bytes>(custom(name, None), words).await.map(from_raw)
    }
}
