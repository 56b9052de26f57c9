//! The store of a service.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use portcullis::redis::RedisStore;
use portcullis::rules::Rules;
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Secret};

use super::store_name::scheme_and_host;

/// Where the service keeps what was charged.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
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

    /// How long a decision of the store may take; 50 ms by default.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    store_deadline: Option<Duration>,

    /// The keys of each policy in memory; 250 000 by default. With fewer of them, more than 64 policies fit.
    #[arg(long, value_name = "NUMBER")]
    memory_keys: Option<usize>,
}

impl StoreArguments {
    fn url(&self) -> Option<String> {
        let url = self.store.clone().or_else(|| env::var(VARIABLE).ok());
        url.filter(|url| url != "memory")
    }

    /// The store without what precedes the host, which may be a password.
    pub(crate) fn shown(&self) -> String {
        let Some(url) = self.url() else { return "memory".to_owned() };
        let (scheme, host) = scheme_and_host(&url);
        format!("{scheme}://{host}")
    }

    /// The limiter, and its store in Redis. A server that cannot be reached is no error.
    pub(crate) async fn limiter(
        &self,
        rules: Option<Rules>,
    ) -> anyhow::Result<(Limiter, Option<RedisStore>)> {
        let Some(url) = self.url() else {
            return Ok((self.in_memory(rules)?, None));
        };
        if !url.contains("://") {
            bail!("a store is `memory` or a URL such as redis://127.0.0.1:6379");
        }
        let mut builder = Limiter::redis(url);
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(deadline) = self.store_deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(file) = &self.store_ca {
            builder = builder.root_certificate(&fs::read(file).with_context(|| file.display().to_string())?);
        }
        if let Some(keys) = self.memory_keys {
            builder = builder.fallback_capacity(keys);
        }
        if let Some(rules) = rules {
            builder = builder.with_rules(rules);
        }
        let connected = Arc::<OnceLock<RedisStore>>::default();
        let kept = Arc::clone(&connected);
        let builder = builder.map_store(move |store| kept.get_or_init(|| store).clone());
        let limiter = builder.await.with_context(|| format!("the store {}", self.shown()))?;
        Ok((limiter, connected.get().cloned()))
    }

    fn in_memory(&self, rules: Option<Rules>) -> anyhow::Result<Limiter> {
        let limiter = match self.memory_keys {
            None => Limiter::memory(),
            Some(keys) => {
                let mut entropy = [0; 16];
                getrandom::fill(&mut entropy).context("the system provides no random bytes")?;
                let secret = Secret::random_for_this_process(entropy);
                Limiter::new(MemoryStore::builder().capacity(keys).build(), secret)
            }
        };
        Ok(match rules {
            Some(rules) => limiter.with_rules(rules)?,
            None => limiter,
        })
    }
}

const VARIABLE: &str = "PORTCULLIS_STORE";
