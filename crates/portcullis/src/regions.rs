//! Several data centres: a region decides on its own store, and buys units of a home store in the background.

use std::time::Duration;

use portcullis_core::Secret;
use portcullis_core::store::Store;
use portcullis_redis::{RedisStore, RedisStoreBuilder, SetupError};

pub use portcullis_regions::{NoRuntime, RegionalStore, RegionalStoreBuilder, Shares, SharesError, purchase};

/// One of several regions of a service, for [`RedisLimiter::region`](crate::redis::RedisLimiter::region).
///
/// Each limit is divided by [`Shares`]: the region keeps a fixed share in its own Redis, the rest is sold by the home store, which is a
/// Redis that all regions reach. Decisions are made in the region; home is asked in the background only. [Several regions]
/// has the bound and what happens in a cut.
///
#[doc = book!("Several regions", "understand/regions")]
///
/// The states of the home store have the namespace of the limiter with `.home` at its end, so that it may be the server of one of the
/// regions. They are found by the fingerprints of clients: the secret and the namespace must be the same in all regions, else each
/// region would have the whole home share.
#[derive(Clone, Debug)]
#[must_use = "a region does nothing until a limiter has it"]
pub struct Region {
    name: String,
    home: String,
    shares: Shares,
    deadline: Duration,
    keys: usize,
    #[cfg(feature = "redis-tls")]
    root_certificate: Option<Vec<u8>>,
}

impl Region {
    /// The region with this name, which only logs show. `home` is the URL of the home store, the same for all regions; see
    /// [`RedisStore::builder`].
    pub fn new(name: impl Into<String>, home: impl Into<String>, shares: Shares) -> Self {
        Self {
            name: name.into(),
            home: home.into(),
            shares,
            deadline: Duration::from_secs(1),
            keys: RegionalStoreBuilder::DEFAULT_KEYS,
            #[cfg(feature = "redis-tls")]
            root_certificate: None,
        }
    }

    /// Sets how long a purchase waits for home, 1 s by default: more than a round trip takes. No request waits for it.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets for how many keys a process buys at the same time, 10 000 by default. See [`RegionalStoreBuilder::keys`].
    pub fn keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// Trusts only home servers whose certificate is signed by this one, in PEM. See [`RedisStoreBuilder::root_certificate`].
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate(self, pem: &[u8]) -> Self {
        Self { root_certificate: Some(pem.to_owned()), ..self }
    }

    /// Connects to home. A home that does not answer is no error: connecting is retried.
    pub(crate) async fn connect(self, namespace: &str, secret: &Secret) -> Result<Regional, SetupError> {
        let home = RedisStore::builder(self.home.clone())
            .namespace(format!("{namespace}.home"))
            .secret_id(secret.id())
            .deadline(self.deadline);
        let home = self.trusting(home).connect().await?;
        Ok(Regional { region: self, home })
    }

    #[cfg(feature = "redis-tls")]
    fn trusting(&self, home: RedisStoreBuilder) -> RedisStoreBuilder {
        match &self.root_certificate {
            Some(pem) => home.root_certificate(pem),
            None => home,
        }
    }

    #[cfg(not(feature = "redis-tls"))]
    #[expect(clippy::unused_self, reason = "the certificate needs a feature")]
    fn trusting(&self, home: RedisStoreBuilder) -> RedisStoreBuilder {
        home
    }
}

/// A region that is connected to its home.
#[derive(Debug)]
pub(crate) struct Regional {
    region: Region,
    home: RedisStore,
}

impl Regional {
    pub(crate) fn decorate(self, local: impl Store) -> RegionalStore {
        let Region { name, shares, deadline, keys, .. } = self.region;
        RegionalStore::builder(local, self.home, shares)
            .name(name)
            .keys(keys)
            // The store has its own deadline, which ends the call first.
            .deadline(deadline.saturating_mul(2))
            .build()
            .expect("home was connected in a runtime")
    }
}
