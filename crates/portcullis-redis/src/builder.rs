//! Builds a store from a URL or a client.

use std::time::Duration;

use portcullis_core::store::Check;
use portcullis_core::{Clock, Policy, Quota, Secret};

use crate::connection::Connection;
use crate::fred::{Client, Pool};
use crate::protocol::keys::{Layout, NamespaceError, slot};
use crate::protocol::scripts;
use crate::protocol::wire::Operation;
use crate::store::{
    DEFAULT_ENTRIES, DenialMemory, EncodedDecisions, Inner, Leases, RecentlyDenied, RedisStore, SeenGrants,
};
use crate::transport::{CallError, ConnectError, Options, QueueKey};

/// Builds a [`RedisStore`].
///
/// ```no_run
/// # async fn run() -> Result<(), portcullis::redis::SetupError> {
/// use std::time::Duration;
/// use portcullis::redis::RedisStore;
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
    Clients(Vec<Client>),
}

impl RedisStore {
    /// Builds a store at `url`: `scheme://[user:password@]host[:port][/database][?parameters]`.
    ///
    /// | scheme | server |
    /// |---|---|
    /// | `redis://` | one server |
    /// | `redis-cluster://` | a cluster, through any of its nodes; more of them by `?node=host:port`, repeated |
    /// | `redis-sentinel://` | the primary that sentinels name, by `?sentinelServiceName=name`; more sentinels by `&node=` |
    ///
    /// With `rediss` in place of `redis` the connection uses TLS (feature `tls`), and trusts the certificates of the system or a
    /// [root certificate](RedisStoreBuilder::root_certificate); `valkey` is accepted in place of `redis`.
    ///
    /// Parameters follow a `?` and are joined by `&`. Besides those in the table, `protocol=3` selects RESP3 instead of RESP2
    /// (`protocol=2`), and `sentinelUsername=` and `sentinelPassword=` are sent to sentinels, which never get the user and the
    /// password of the servers. Any other parameter is an error. So is a user without a password: for a user that needs none, any
    /// password is accepted.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Server::Url(url.into()))
    }

    /// Builds a store on a `fred` client that was made, configured and connected elsewhere, and that reconnects by itself.
    ///
    /// Every call requests a single attempt and the store's deadline, whatever the client's configuration. A cluster client routes
    /// by itself: it connects to all primaries or to none, whereas a store at a [URL](RedisStore::builder) continues with those
    /// that are reachable.
    pub fn with_client(client: Client) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Server::Clients(vec![client]))
    }

    /// Builds a store on a pool of such clients.
    #[expect(clippy::needless_pass_by_value, reason = "like a client")]
    pub fn with_pool(pool: Pool) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Server::Clients(pool.clients().to_vec()))
    }
}

impl RedisStoreBuilder {
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

    /// Sets the prefix of all keys, `portcullis` by default: 1 to 64 characters from `A-Z a-z 0-9 . _ -`.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// The prefix of all keys, as [set](Self::namespace).
    pub fn key_prefix(&self) -> &str {
        &self.namespace
    }

    /// Sets the id of the secret for fingerprints, which is part of every key; that of [`Secret::published`] by default. See
    /// [`Secret::id`].
    pub fn secret_id(self, id: impl Into<String>) -> Self {
        Self { secret_id: id.into(), ..self }
    }

    /// Sets how long a decision may take, 50 ms by default, from 1 ms to an hour. A check without a reply by then is an error: an
    /// overload if other calls were answered meanwhile. If none was, the store probes the server, and the check waits for up to as long
    /// again. If neither is answered it is an outage, to which the policy's failure mode applies. Whether the charge was made is
    /// unknown, and the check is not sent again. It takes longer only while this process stands still, for up to three deadlines more.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { options: self.options.deadline(deadline), ..self }
    }

    /// Sets how long connecting waits for a server that does not reply before it returns without a connection, 1 s by default, at
    /// most an hour.
    pub fn connect_wait(self, wait: Duration) -> Self {
        Self { options: self.options.connect_wait(wait), ..self }
    }

    /// Sets how many calls may wait, per connection, while 1 024 are in flight: 10 000 by default, at least 1. More are rejected as
    /// [overloaded](portcullis_core::StoreErrorKind::Overloaded), and so is a call that is not sent within the deadline; in both
    /// cases nothing was sent.
    ///
    /// One key has at most 1/16 of the calls in flight (64) and 1/16 of those that wait (625); equal decisions that join another one, up to
    /// 256, are beyond these bounds. A decision counts under its [narrowest](portcullis_core::store::Checks::narrowest_key) key, and is
    /// bounded only together with all others if all of its keys are shared between clients.
    pub fn max_waiting(self, calls: usize) -> Self {
        Self { options: self.options.max_waiting(calls), ..self }
    }

    /// Sets how many denials are remembered, 65 536 by default, rounded up to a multiple of 512; 0 for none. Each takes about 200
    /// bytes of memory, which is allocated when there are denials.
    ///
    /// A check is denied without a round trip if one of its policies has denied its key for the same cost or less, for as long as
    /// the server would deny it again and at most 1 s, measured from before the request to the server. The
    /// [outcome](portcullis_core::store::Outcome::is_remembered) then names that policy only. So a flood of one key costs the server one
    /// decision per second.
    ///
    /// A refund, a settlement to fewer units, a reset, grant or `unblock` by this store removes the denial at once. **One by another instance
    /// is not seen**: the client may be denied for up to 1 s longer. While the server decides nothing, a denial holds until its wait is over,
    /// at most 60 s from before the request, whatever the failure mode of its policy. Denials of a key that clients
    /// [share](portcullis_core::Key::is_shared) are not remembered.
    pub fn denial_memory(self, entries: usize) -> Self {
        Self { denials: entries, ..self }
    }

    /// Sets the number of connections, in a cluster per primary, 1 by default and at least. Calls are pipelined, so one is enough
    /// except for the busiest services.
    pub fn connections(self, count: usize) -> Self {
        Self { options: self.options.pool_size(count), ..self }
    }

    /// Trusts only servers whose certificates are signed by this certificate, in PEM, or by one of several concatenated
    /// certificates, and not the authorities of the system.
    ///
    /// It applies if the URL's scheme uses TLS, and not to clients that were made elsewhere. PEM without a certificate is an error
    /// of [`connect`](RedisStoreBuilder::connect).
    #[cfg(feature = "tls")]
    pub fn root_certificate(self, pem: &[u8]) -> Self {
        Self { options: self.options.roots(pem), ..self }
    }

    /// Takes the time from `clock` instead of the server, and keeps keys for ten minutes whatever their state.
    ///
    /// For tests that drive a store along a timeline. The default namespace is then `portcullis-scenario`. No denials are
    /// remembered and nothing is leased, because both expire on the clock of this process. A test that moves this clock as well sets
    /// the [`denial_memory`](RedisStoreBuilder::denial_memory) afterwards.
    #[cfg(feature = "scenario")]
    pub fn scenario_clock(mut self, clock: impl Clock) -> Self {
        if self.namespace == "portcullis" {
            "portcullis-scenario".clone_into(&mut self.namespace);
        }
        Self { scenario: Some(Box::new(clock)), denials: 0, ..self }
    }

    /// Connects.
    ///
    /// An unreachable server is no error: after the [`connect_wait`](RedisStoreBuilder::connect_wait) one warning is logged, the
    /// store fails as unavailable, and connecting continues without limit. A permanent error that is found later is logged.
    ///
    /// # Errors
    ///
    /// Permanent errors: an invalid URL, namespace or root certificate, TLS that is not compiled in, wrong credentials, a user
    /// without a permission that every decision needs, or a server that runs no Lua, is too old, does not have the database, speaks
    /// another protocol, or is (or is not) part of a cluster or a sentinel, contrary to the URL; see [`ConnectError`]. Permissions
    /// that only a sliding log needs are checked by its first decision.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime. The store uses the runtime in which it was connected. After the end of that one, the next check connects
    /// anew in its own runtime and waits for it within its deadline; the log has a line. Only a [client](RedisStore::with_client) of the
    /// caller cannot be connected again: every check fails as unavailable then, and the error names the reason.
    pub async fn connect(self) -> Result<RedisStore, SetupError> {
        let layout = Layout::new(&self.namespace, &self.secret_id)?;
        let connection = match self.server {
            Server::Url(url) => Connection::open(&url, self.options).await?,
            Server::Clients(clients) => Connection::from_clients(clients, self.options).await?,
        };
        let leases = Leases::new(self.scenario.is_none());
        let inner = Inner::new(connection, layout, self.denials, leases, self.scenario);
        inner.probe().await?;
        Ok(RedisStore::from_inner(inner))
    }
}

impl Inner {
    pub(crate) fn new(
        connection: Connection,
        layout: Layout,
        denials: usize,
        leases: Leases,
        scenario: Option<Box<dyn Clock>>,
    ) -> Self {
        Self {
            connection,
            layout,
            script: scripts::of_decisions(scenario.is_some()),
            override_script: scripts::of_overrides(scenario.is_some()),
            denials: DenialMemory::new(denials),
            leases,
            grants: SeenGrants::new(),
            encoded: EncodedDecisions::new(),
            scenario,
            recently_denied: RecentlyDenied::new(),
        }
    }

    /// Resets a key that only this check uses, so that missing permissions to read or write keys are found now and not by the
    /// first request.
    async fn probe(&self) -> Result<(), SetupError> {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("probe", b"");
        let Ok(key) = hasher.finish() else { return Ok(()) };
        let check = Check { policy: Policy::gcra("probe", Quota::per_second(1)), key, cost: 0 };
        let reply = self.send(
            slot(check.key),
            QueueKey::none(),
            Operation::Reset,
            std::iter::once(&check),
            &[],
            None,
        );
        match reply.await {
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

/// Why a store cannot be set up. All of these errors are permanent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The namespace or the secret's id cannot be part of a key.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The server cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The user may run scripts, but lacks permission to read or write the keys.
    #[error(
        "{0}; it needs at least `+evalsha +script|load +time +get +set ~<namespace>:*`, or `+evalsha +eval` in place of \
         `+evalsha +script|load`; for a sliding log also `+getrange +setrange +pexpire`"
    )]
    Permission(String),
}
