//! From a URL to a limiter on Redis.

use std::env::{self, VarError};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use portcullis_core::{Secret, SecretError};
use portcullis_memory::Fallback;
use portcullis_redis::{RedisStoreBuilder, SetupError};

use crate::Limiter;

/// Builds a [`Limiter`] on Redis; awaiting it connects.
///
/// The secret that callers are fingerprinted under must be the same in all processes. It is the one given to
/// [`secret`](RedisLimiter::secret), else the one in the environment variable `PORTCULLIS_SECRET`
/// (`<id>:<32 hexadecimal digits>`). Without either a published one is used, and one warning says so: whoever reads the
/// server can then find out by trying which addresses its keys belong to.
///
/// A server that cannot be reached is no error: after a second one warning is logged, and connecting goes on until it
/// succeeds. Meanwhile the [mode](portcullis_core::FailureMode) of each policy applies; by default this process enforces the
/// whole limit by itself.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is awaited"]
pub struct RedisLimiter {
    store: RedisStoreBuilder,
    secret: Option<Result<Secret, SecretError>>,
    fallback_capacity: Option<usize>,
}

impl RedisLimiter {
    /// Sets the secret, 16 bytes, and the id it goes by. See [`Secret::new`].
    pub fn secret(self, id: &str, bytes: &[u8]) -> Self {
        Self { secret: Some(Secret::new(id, bytes)), ..self }
    }

    /// Sets what all keys begin with. See [`RedisStoreBuilder::namespace`].
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { store: self.store.namespace(namespace), ..self }
    }

    /// Sets how long a decision may take, 50 ms by default. See [`RedisStoreBuilder::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { store: self.store.deadline(deadline), ..self }
    }

    /// Trusts whoever is signed by this certificate, in PEM, and no authority of the system. See
    /// [`RedisStoreBuilder::root_certificate`].
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate(self, pem: &[u8]) -> Self {
        Self { store: self.store.root_certificate(pem), ..self }
    }

    /// Sets how many keys of each policy are kept in this process, at most, while the server fails and policies are decided
    /// [locally](portcullis_core::FailureMode::Local), which is the default mode; 100 000 by default, for up to 160 policies.
    /// Fewer keys make room for more policies. Keys beyond that share 4 096 budgets per policy. See [`Fallback`].
    pub fn fallback_capacity(self, keys: usize) -> Self {
        Self { fallback_capacity: Some(keys), ..self }
    }

    async fn connect(self) -> Result<Limiter, RedisLimiterError> {
        let secret = match self.secret {
            Some(secret) => secret.map_err(RedisLimiterError::Secret)?,
            None => secret_of_the_environment()?,
        };
        let store = self.store.secret_id(secret.id()).connect().await?;
        if secret == Secret::published() {
            tracing::warn!(
                "callers are fingerprinted under the published secret: whoever reads the redis can guess who they \
                 are; set {VARIABLE} or `.secret(id, bytes)` to the same value on all nodes"
            );
        }
        let fallback = Fallback::builder(store);
        let fallback = match self.fallback_capacity {
            Some(keys) => fallback.capacity(keys),
            None => fallback,
        };
        Ok(Limiter::with_fallback(fallback.build(), secret))
    }
}

impl From<RedisStoreBuilder> for RedisLimiter {
    /// For what only the store's builder offers, such as a ready client. The id of the secret is set when connecting.
    fn from(store: RedisStoreBuilder) -> Self {
        Self { store, secret: None, fallback_capacity: None }
    }
}

impl IntoFuture for RedisLimiter {
    type Output = Result<Limiter, RedisLimiterError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

/// Why a limiter on Redis cannot be set up: only what time does not heal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisLimiterError {
    /// The secret that was given cannot be used.
    #[error(transparent)]
    Secret(SecretError),
    /// The environment variable holds no secret.
    #[error("the environment variable {VARIABLE}: {0}")]
    Environment(SecretError),
    /// The store cannot be set up.
    #[error(transparent)]
    Store(#[from] SetupError),
}

fn secret_of_the_environment() -> Result<Secret, RedisLimiterError> {
    match env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(RedisLimiterError::Environment),
        Err(VarError::NotUnicode(_)) => Err(RedisLimiterError::Environment(SecretError::Text)),
        Err(VarError::NotPresent) => Ok(Secret::published()),
    }
}

const VARIABLE: &str = "PORTCULLIS_SECRET";
