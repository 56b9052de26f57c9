//! `portcullis rules`: rules that are kept in a store, signed.

mod keygen;
mod push;
mod show;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use portcullis_core::store::DocumentStore;
use portcullis_redis::RedisStore;

use crate::service::in_runtime;
use crate::service::redis::RedisArguments;

/// Rules that are kept in Redis, so that all instances change together.
#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    Keygen(keygen::Keygen),
    Push(push::Push),
    Show(show::Show),
}

impl Rules {
    /// Returns whether the files could be used.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        match self {
            Self::Keygen(keygen) => keygen.run().map(|()| true),
            Self::Push(push) => in_runtime(push.run()),
            Self::Show(show) => in_runtime(show.run()).map(|()| true),
        }
    }
}

/// Where the document is.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    redis: RedisArguments,

    /// The key of the document in the server, as `[remote]` in the local files of the instances states it.
    #[arg(long, value_name = "KEY", default_value = "portcullis-rules")]
    name: String,
}

impl Place {
    async fn open(&self) -> anyhow::Result<impl DocumentStore> {
        let url =
            self.redis.url()?.context("name the server of the instances by --store or PORTCULLIS_STORE")?;
        let mut builder = RedisStore::builder(url).deadline(DEADLINE);
        if let Some(namespace) = self.redis.namespace() {
            builder = builder.namespace(namespace);
        }
        if let Some(authority) = self.redis.authority()? {
            builder = builder.root_certificate(&authority);
        }
        let store = builder.connect().await?;
        ensure!(store.is_connected(), "no connection to the server: is it running?");
        Ok(store)
    }
}

/// Long, because an operator waits, not a request.
const DEADLINE: Duration = Duration::from_secs(5);
