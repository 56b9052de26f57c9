//! The store of a service.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use portcullis::redis::RedisStore;
use portcullis::rules::Rules;
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Secret};

use super::redis::RedisArguments;

/// Where the service keeps what was charged.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    #[command(flatten)]
    redis: RedisArguments,

    /// How long a decision of the store may take; 50 ms by default.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    store_deadline: Option<Duration>,

    /// The keys of each policy in memory; 250 000 by default. With fewer of them, more than 64 policies fit.
    #[arg(long, value_name = "NUMBER")]
    memory_keys: Option<usize>,
}

impl StoreArguments {
    /// The store without what precedes the host, which may be a password.
    pub(crate) fn shown(&self) -> String {
        self.redis.shown()
    }

    /// The limiter, and its store in Redis. A server that cannot be reached is no error.
    pub(crate) async fn limiter(
        &self,
        rules: Option<Rules>,
    ) -> anyhow::Result<(Limiter, Option<RedisStore>)> {
        let Some(url) = self.redis.url()? else {
            return Ok((self.in_memory(rules)?, None));
        };
        let mut builder = Limiter::redis(url);
        if let Some(namespace) = self.redis.namespace() {
            builder = builder.namespace(namespace);
        }
        if let Some(deadline) = self.store_deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(authority) = self.redis.authority()? {
            builder = builder.root_certificate(&authority);
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
