//! From a URL or a client to a store.

use std::time::Duration;

use fred::clients::{Client, Pool};
use portcullis_core::{Check, Clock, Policy, Quota, Secret};

use crate::connection::{CallError, ConnectError, Connection, Options, QueueKey};
use crate::keys::{Layout, NamespaceError};
use crate::scripts::Scripts;
use crate::store::{DEFAULT_ENTRIES, DenialMemory, DeniedLately, Inner, RedisStore};
use crate::wire::Operation;

/// Builds a [`RedisStore`].
///
/// ```no_run
/// # async fn run() -> Result<(), portcullis_redis::SetupError> {
/// use std::time::Duration;
/// use portcullis_redis::RedisStore;
///
/// let store = RedisStore::builder("redis://127.0.0.1:6379")
///     .namespace("shop")
///     .deadline(Duration::from_millis(20))
///     .connect()
///     .await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct RedisStoreBuilder {
    server: Server,
    namespace: String,
    secret_id: String,
    options: Options,
    denials: usize,
    scenario: Option<Box<dyn Clock>>,
}

enum Server {
    Url(String),
    Client(Client),
    Pool(Pool),
}

impl RedisStoreBuilder {
    pub(crate) fn at_url(url: String) -> Self {
        Self::new(Server::Url(url))
    }

    pub(crate) fn with_client(client: Client) -> Self {
        Self::new(Server::Client(client))
    }

    pub(crate) fn with_pool(pool: Pool) -> Self {
        Self::new(Server::Pool(pool))
    }

    fn new(server: Server) -> Self {
        Self {
            server,
            namespace: "portcullis".to_owned(),
            secret_id: Secret::published().id().to_owned(),
            options: Options::default(),
            denials: DEFAULT_ENTRIES,
            scenario: None,
        }
    }

    /// What all keys begin with, `portcullis` by default: 1 to 64 characters from `A-Z a-z 0-9 . _ -`.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// The id of the secret that fingerprints are made under, part of every key; that of [`Secret::published`] by
    /// default. See [`Secret::id`].
    pub fn secret_id(self, id: impl Into<String>) -> Self {
        Self { secret_id: id.into(), ..self }
    }

    /// How long a decision may take, 50 ms by default, from 1 ms to an hour. A check without an answer by then is an error:
    /// an overload if others were answered meanwhile, else an outage, to which the policy's answer applies. Whether the charge
    /// was made is unknown, and nothing is sent again.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { options: self.options.deadline(deadline), ..self }
    }

    /// How long connecting waits for a server that does not answer before it goes on without, 1 s by default, at most an
    /// hour.
    pub fn connect_wait(self, wait: Duration) -> Self {
        Self { options: self.options.connect_wait(wait), ..self }
    }

    /// How many calls may wait while 1 024 are in flight, per connection, 10 000 by default, 1 at the least. More are refused
    /// as [overloaded](portcullis_core::StoreErrorKind::Overloaded), and so is a call that is not sent within the deadline;
    /// nothing was sent then.
    ///
    /// One key has at most 1/16 of the calls in flight (64) and 1/16 of those that wait (625): so a flood under one key is
    /// refused while callers with other keys are served. The key that counts is the
    /// [narrowest](portcullis_core::Checks::narrowest_key) of a decision; where callers share all keys of a decision there is
    /// none, and its calls are bounded with all others only.
    pub fn max_waiting(self, calls: usize) -> Self {
        Self { options: self.options.max_buffered(calls), ..self }
    }

    /// How many denials are remembered, 65 536 by default, rounded up to a multiple of 512; 0 for none. Each takes some 200
    /// bytes, in memory that is taken when there are denials.
    ///
    /// A check is denied without a trip to the server where one of its policies has denied its key the same cost or less, for
    /// as long as the server would deny it again and at most 1 s, measured from before the server was asked. The
    /// [outcome](portcullis_core::Outcome::is_remembered) then names that policy only. So a flood of one key costs the server
    /// one decision per second.
    ///
    /// A refund, settlement or reset by this store ends that at once. **By another instance it is not seen**: its caller may
    /// be denied for up to 1 s longer. Denials of a key that callers [share](portcullis_core::Key::is_shared) are not
    /// remembered.
    pub fn denial_memory(self, entries: usize) -> Self {
        Self { denials: entries, ..self }
    }

    /// How many connections to make, in a cluster to each primary, 1 by default and at the least. Calls are pipelined: one is
    /// enough but for the busiest.
    pub fn connections(self, count: usize) -> Self {
        Self { options: self.options.pool_size(count), ..self }
    }

    /// Trusts whoever is signed by this certificate, in PEM, or by one of several in a row, and no authority of the system.
    ///
    /// It counts where the URL says TLS, and not for clients that were made elsewhere. PEM without a certificate is an error
    /// of [`connect`](RedisStoreBuilder::connect).
    #[cfg(feature = "tls")]
    pub fn root_certificate(self, pem: &[u8]) -> Self {
        Self { options: self.options.roots(pem), ..self }
    }

    /// Takes time from `clock` instead of the server, and keeps keys for ten minutes whatever their state says.
    ///
    /// For tests that drive a store along a timeline; the default namespace is then `portcullis-scenario`. No denials are
    /// remembered, because they age by the time of this process.
    #[cfg(feature = "scenario")]
    pub fn scenario_clock(mut self, clock: impl Clock) -> Self {
        if self.namespace == "portcullis" {
            "portcullis-scenario".clone_into(&mut self.namespace);
        }
        Self { scenario: Some(Box::new(clock)), denials: 0, ..self }
    }

    /// Connects.
    ///
    /// A server that cannot be reached is no error: after the [`connect_wait`](RedisStoreBuilder::connect_wait) one
    /// warning is logged, the store answers as unavailable, and connecting goes on for ever. What would have been an error
    /// here is then one in the log.
    ///
    /// # Errors
    ///
    /// What time does not heal: a URL, namespace or root certificate that is none, TLS that is not compiled in, wrong
    /// credentials, a user who may not run what every decision needs, a server that runs no Lua, is too old, has no such
    /// database, speaks another protocol, or is (or is not) part of a cluster or a sentinel, against what the URL says; see
    /// [`ConnectError`]. What only a sliding log needs is found by its first check.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime. The store lives on the runtime it was connected in: when that ends, every check fails as
    /// unavailable and says so.
    pub async fn connect(self) -> Result<RedisStore, SetupError> {
        let layout = Layout::new(&self.namespace, &self.secret_id)?;
        let connection = match self.server {
            Server::Url(url) => Connection::open(&url, self.options).await?,
            Server::Client(client) => Connection::from_client(client, self.options).await?,
            Server::Pool(pool) => Connection::from_pool(&pool, self.options).await?,
        };
        #[cfg(feature = "scenario")]
        let scripts =
            if self.scenario.is_some() { Scripts::on_scenario_time() } else { Scripts::on_server_time() };
        #[cfg(not(feature = "scenario"))]
        let scripts = Scripts::on_server_time();
        let (denials, denied_lately) = (DenialMemory::new(self.denials), DeniedLately::new());
        let inner = Inner { connection, layout, scripts, denials, denied_lately, scenario: self.scenario };
        inner.probe().await?;
        Ok(RedisStore::from_inner(inner))
    }
}

impl Inner {
    /// Resets a key of our own, so that a user who may not read or write keys is found now and not by the first request.
    async fn probe(&self) -> Result<(), SetupError> {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("probe", b"");
        let Ok(key) = hasher.finish() else { return Ok(()) };
        let check = Check { policy: Policy::gcra("probe", Quota::per_second(1)), key, cost: 0 };
        match self.send(QueueKey::none(), Operation::Reset, std::iter::once(&check)).await {
            Err(error @ CallError::Denied(_)) => Err(SetupError::Permission(error.to_string())),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for RedisStoreBuilder {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut builder = f.debug_struct("RedisStoreBuilder");
        builder.field("namespace", &self.namespace).field("options", &self.options).finish_non_exhaustive()
    }
}

/// Why a store cannot be set up: only what time does not heal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The namespace or the secret's id cannot be part of a key.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The server cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The user may run scripts, but not read or write the keys.
    #[error(
        "{0}; the least it needs is `+evalsha +script|load +time +get +set ~<namespace>:*`, for a sliding log also \
         `+getrange +setrange +pexpire`"
    )]
    Permission(String),
}
