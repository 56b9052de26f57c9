//! Stores by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_testing::{ManualClock, Pure, StoreSubject, SystemUnderTest};

/// A store to run timelines against.
#[derive(Clone, Debug)]
pub(crate) enum StoreName {
    Pure,
    Memory,
    Redis(String),
}

impl StoreName {
    /// Opens the store on a clock that the timelines set.
    pub(crate) async fn open(&self) -> anyhow::Result<Box<dyn SystemUnderTest>> {
        let clock = ManualClock::default();
        Ok(match self {
            Self::Pure => Box::new(Pure::new()),
            Self::Memory => {
                // Cases set the clock back, and a swept state would then be missing.
                let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
                Box::new(StoreSubject::new(Arc::new(store), clock))
            }
            Self::Redis(url) => {
                let store = RedisStore::builder(url).deadline(DEADLINE).scenario_clock(clock.clone());
                let store = store.connect().await?;
                ensure!(store.is_connected(), "no connection to {self}: is the server running?");
                Box::new(StoreSubject::new(Arc::new(store), clock))
            }
        })
    }
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pure" => Ok(Self::Pure),
            "memory" => Ok(Self::Memory),
            url if url.contains("://") => Ok(Self::Redis(url.to_owned())),
            _ => Err("a store is `memory`, `pure` or a URL such as redis://127.0.0.1:6379".to_owned()),
        }
    }
}

impl fmt::Display for StoreName {
    /// Omits the part of a URL before the host: it may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pure => f.write_str("pure"),
            Self::Memory => f.write_str("memory"),
            Self::Redis(url) => f.write_str(scheme_and_host(url).1),
        }
    }
}

/// The scheme of a URL, and its host without what precedes it, which may be a password.
pub(crate) fn scheme_and_host(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.rsplit('@').next().unwrap_or_default();
    (scheme, host.split(['/', '?']).next().unwrap_or_default())
}

/// Long, because no client waits for a replay.
const DEADLINE: Duration = Duration::from_secs(5);
