//! State in Redis: the builder of a limiter on Redis, and the store behind it.

use std::env::{self, VarError};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use portcullis_core::store::Store;
use portcullis_core::{Secret, SecretError};
use portcullis_log::codes;
use portcullis_memory::Fallback;

use crate::Limiter;
use crate::regions::{Region, Regional};

pub use portcullis_redis::{ConnectError, NamespaceError, RedisStore, RedisStoreBuilder, SetupError};

impl Limiter {
    /// Starts a limiter that keeps its state in Redis, Valkey or a cluster, shared by all processes that use the same server,
    /// namespace and secret.
    ///
    /// The URL is `redis://`, `redis-cluster://` or `redis-sentinel://`, or the same with `rediss` for TLS (feature
    /// `redis-tls`); [`RedisStore::builder`] describes what it may contain. The result is a builder; awaiting
    /// it connects.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), portcullis::redis::RedisLimiterError> {
    /// use portcullis::Limiter;
    ///
    /// let limiter = Limiter::redis("redis://127.0.0.1:6379").namespace("shop").await?;
    /// # drop(limiter);
    /// # Ok(())
    /// # }
    /// ```
    pub fn redis(url: impl Into<String>) -> RedisLimiter {
        RedisStore::builder(url).into()
    }
}

/// Builds a [`Limiter`] on Redis; awaiting it connects.
///
/// The secret for the fingerprints of clients must be the same in all processes. It is the one given to
/// [`secret`](RedisLimiter::secret), else the one in the environment variable `PORTCULLIS_SECRET`
/// (`<id>:<32 hexadecimal digits>`). Without either, a published one is used and one warning is logged: anyone with read access
/// to the server can then test which addresses its keys belong to.
///
/// A server that cannot be reached is not an error: after one second one warning is logged, and connecting is retried until it
/// succeeds. Meanwhile the [failure mode](portcullis_core::FailureMode) of each policy applies; by default this process
/// enforces the whole limit on its own.
#[must_use = "a builder does nothing until it is awaited"]
pub struct RedisLimiter {
    store: RedisStoreBuilder,
    secret: Option<Result<Secret, SecretError>>,
    fallback_capacity: Option<usize>,
    region: Option<Region>,
    /// Boxed, so that the builder has no type parameter for a decorated store.
    finish: Finish,
    #[cfg(feature = "rules")]
    rules: Option<crate::rules::Rules>,
}

/// Makes the limiter on the connected store, with the capacity of its fallback.
type Finish = Box<dyn FnOnce(RedisStore, Option<Regional>, Option<usize>, Secret) -> Limiter + Send>;

impl RedisLimiter {
    /// Sets the secret, 16 bytes, and its id. See [`Secret::new`].
    pub fn secret(self, id: &str, bytes: &[u8]) -> Self {
        Self { secret: Some(Secret::new(id, bytes)), ..self }
    }

    /// Sets the prefix of all keys. See [`RedisStoreBuilder::namespace`].
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { store: self.store.namespace(namespace), ..self }
    }

    /// Sets how long a decision may take, 50 ms by default, and twice that while it is open whether there is an outage. See [`RedisStoreBuilder::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { store: self.store.deadline(deadline), ..self }
    }

    /// Trusts only servers whose certificate is signed by this one, in PEM, and no authority of the system. See
    /// [`RedisStoreBuilder::root_certificate`].
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate(self, pem: &[u8]) -> Self {
        Self { store: self.store.root_certificate(pem), ..self }
    }

    /// Sets the maximum number of keys of each policy in this process while the server fails and policies are decided
    /// [locally](portcullis_core::FailureMode::Local), which is the default mode; 100 000 by default, for up to 160 policies.
    /// With fewer keys per policy, more policies fit. Keys beyond that share 4 096 budgets per policy. See [`Fallback`].
    pub fn fallback_capacity(self, keys: usize) -> Self {
        Self { fallback_capacity: Some(keys), ..self }
    }

    /// Divides the limits among several regions: this limiter decides on its own server, and buys units of the region's home store in
    /// the background. The namespace and the secret must be the same in all regions. See [`Region`].
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use portcullis::Limiter;
    /// use portcullis::regions::{Region, Shares};
    ///
    /// let region = Region::new("eu", "rediss://home.example:6379", Shares::equal(3)?);
    /// let limiter = Limiter::redis("redis://127.0.0.1:6379").region(region).await?;
    /// # drop(limiter);
    /// # Ok(())
    /// # }
    /// ```
    pub fn region(self, region: Region) -> Self {
        Self { region: Some(region), ..self }
    }

    /// Gives the limiter its rules, which are usually read from a file. See [`Limiter::with_rules`].
    #[cfg(feature = "rules")]
    pub fn with_rules(self, rules: crate::rules::Rules) -> Self {
        Self { rules: Some(rules), ..self }
    }

    /// Decorates the store once it is connected, for metrics, logs or a cache of your own. The secret and its id are found as
    /// without a decorator. A second call replaces the first.
    ///
    /// The decorated store lies inside the [`Fallback`]: it is called for every decision, correction and reset, also during an
    /// outage, except for what the fallback has charged. It should pass on every method of [`Store`]. A
    /// [`check_with`](Store::check_with) that is passed on returns what the fallback has decided if the server fails, and
    /// [`Outcome::failure`](crate::store::Outcome::failure) states the reason. The default calls [`check`](Store::check)
    /// instead; if one slot of a cluster fails, the fallback then decides for the healthy ones as well.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use portcullis::key::Key;
    /// use portcullis::redis::{RedisLimiterError, RedisStore};
    /// use portcullis::store::{
    ///     CallObserver, Checks, Figure, Outcome, Renewal, Renewed, Standby, Store, StoreFuture,
    /// };
    /// use portcullis::{Decision, Limiter, Policy, Receipt, Settlement, StoreError};
    ///
    /// /// Prints the failures of Redis.
    /// struct Logged(RedisStore);
    ///
    /// fn log(answer: Result<Outcome, StoreError>) -> Result<Outcome, StoreError> {
    ///     let failure = answer.as_ref().map_or_else(Some, Outcome::failure);
    ///     if let Some(failure) = failure {
    ///         eprintln!("redis: {failure}");
    ///     }
    ///     answer
    /// }
    ///
    /// impl Store for Logged {
    ///     fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
    ///         self.0.check(checks).map(log)
    ///     }
    ///     fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
    ///         self.0.check_with(checks, standby).map(log)
    ///     }
    ///     fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
    ///         self.0.refund(receipt)
    ///     }
    ///     fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
    ///         self.0.settle(receipt, cost)
    ///     }
    ///     fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
    ///         self.0.renew(renewals)
    ///     }
    ///     fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
    ///         self.0.reset(policy, key)
    ///     }
    ///     fn register(&self, policy: &Policy) -> Result<(), StoreError> {
    ///         self.0.register(policy)
    ///     }
    ///     fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
    ///         self.0.figures(visit);
    ///     }
    ///     fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
    ///         self.0.observe_calls(observer);
    ///     }
    ///
    ///     fn drain(&self) -> StoreFuture<()> {
    ///         self.0.drain()
    ///     }
    /// }
    ///
    /// async fn limiter() -> Result<Limiter, RedisLimiterError> {
    ///     Limiter::redis("redis://127.0.0.1:6379").map_store(Logged).await
    /// }
    /// ```
    pub fn map_store<S: Store>(self, decorate: impl FnOnce(RedisStore) -> S + Send + 'static) -> Self {
        let finish: Finish = Box::new(move |store, regional, capacity, secret| {
            limiter_on(decorate(store), regional, capacity, secret)
        });
        Self { finish, ..self }
    }

    async fn connect(self) -> Result<Limiter, RedisLimiterError> {
        let secret = match self.secret {
            Some(secret) => secret.map_err(RedisLimiterError::Secret)?,
            None => secret_from_environment()?,
        };
        let regional = match self.region {
            Some(region) => Some(region.connect(self.store.key_prefix(), &secret).await?),
            None => None,
        };
        let store = self.store.secret_id(secret.id()).connect().await?;
        if secret == Secret::published() {
            tracing::warn!(
                code = %codes::PUBLISHED_SECRET,
                "keys are fingerprinted under the published secret: anyone with read access to redis can guess the \
                 clients; set {VARIABLE} (in code `.secret(id, bytes)`) to the same value on all nodes"
            );
        }
        let limiter = (self.finish)(store, regional, self.fallback_capacity, secret);
        #[cfg(feature = "rules")]
        if let Some(rules) = self.rules {
            return limiter.with_rules(rules).map_err(RedisLimiterError::Rules);
        }
        Ok(limiter)
    }
}

fn limiter_on<S: Store>(
    store: S,
    regional: Option<Regional>,
    fallback_capacity: Option<usize>,
    secret: Secret,
) -> Limiter {
    match regional {
        Some(regional) => with_fallback(regional.decorate(store), fallback_capacity, secret),
        None => with_fallback(store, fallback_capacity, secret),
    }
}

fn with_fallback<S: Store>(store: S, fallback_capacity: Option<usize>, secret: Secret) -> Limiter {
    let fallback = Fallback::builder(store);
    let fallback = match fallback_capacity {
        Some(keys) => fallback.capacity(keys),
        None => fallback,
    };
    Limiter::with_fallback(fallback.build(), secret)
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("store", &self.store)
            .field("secret", &self.secret)
            .field("fallback_capacity", &self.fallback_capacity)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl From<RedisStoreBuilder> for RedisLimiter {
    /// For options of the store's builder, such as a ready client. The id of the secret is set when connecting.
    fn from(store: RedisStoreBuilder) -> Self {
        let finish: Finish = Box::new(limiter_on::<RedisStore>);
        Self {
            store,
            secret: None,
            fallback_capacity: None,
            region: None,
            finish,
            #[cfg(feature = "rules")]
            rules: None,
        }
    }
}

impl IntoFuture for RedisLimiter {
    type Output = Result<Limiter, RedisLimiterError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

/// Why a limiter on Redis cannot be set up. Only permanent errors are returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisLimiterError {
    /// The given secret is invalid.
    #[error(transparent)]
    Secret(SecretError),
    /// The environment variable holds no valid secret.
    #[error("the environment variable {VARIABLE}: {0}")]
    Environment(SecretError),
    /// The store cannot be set up.
    #[error(transparent)]
    Store(#[from] SetupError),
    /// The limiter cannot have the rules.
    #[cfg(feature = "rules")]
    #[error(transparent)]
    Rules(portcullis_tower::LayerError),
}

fn secret_from_environment() -> Result<Secret, RedisLimiterError> {
    match env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(RedisLimiterError::Environment),
        Err(VarError::NotUnicode(_)) => Err(RedisLimiterError::Environment(SecretError::Text)),
        Err(VarError::NotPresent) => Ok(Secret::published()),
    }
}

const VARIABLE: &str = "PORTCULLIS_SECRET";
