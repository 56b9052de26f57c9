//! The server of a store.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::store_name::scheme_and_host;

/// A server of Redis or Valkey, or none.
#[derive(Debug, Args)]
pub(crate) struct RedisArguments {
    /// `memory`, or the URL of Redis or Valkey: `redis://`, `redis-cluster://` or `redis-sentinel://`, with `rediss` for TLS. By
    /// default the value of `PORTCULLIS_STORE`, which other users of the machine cannot see, and `memory` without it.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Trusts only servers with a certificate of this authority, in PEM, and not those of the system.
    #[arg(long, value_name = "FILE")]
    store_ca: Option<PathBuf>,

    /// The prefix of all keys in the store.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

impl RedisArguments {
    /// The URL of the server. `None` in memory.
    pub(crate) fn url(&self) -> anyhow::Result<Option<String>> {
        match self.given() {
            Some(url) if !url.contains("://") => {
                anyhow::bail!("a store is `memory` or a URL such as redis://127.0.0.1:6379")
            }
            url => Ok(url),
        }
    }

    /// The store without what precedes the host, which may be a password.
    pub(crate) fn shown(&self) -> String {
        let Some(url) = self.given() else { return "memory".to_owned() };
        let (scheme, host) = scheme_and_host(&url);
        format!("{scheme}://{host}")
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The certificate of the authority, in PEM.
    pub(crate) fn authority(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let read = |file: &PathBuf| fs::read(file).with_context(|| file.display().to_string());
        self.store_ca.as_ref().map(read).transpose()
    }

    fn given(&self) -> Option<String> {
        let url = self.store.clone().or_else(|| env::var(VARIABLE).ok());
        url.filter(|url| url != "memory")
    }
}

const VARIABLE: &str = "PORTCULLIS_STORE";
