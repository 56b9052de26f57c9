//! Errors, classified by what a caller may conclude from them.

use std::borrow::Cow;
use std::time::Duration;

use portcullis_core::StoreErrorKind;
use portcullis_log::codes;

/// Why a call returned no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CallError {
    /// The call cannot be served now; nothing was done.
    #[error("redis cannot answer: {0}")]
    Unavailable(Cow<'static, str>),
    /// The connection broke during the call.
    #[error("the connection to redis broke during the call: {0}")]
    Lost(String),
    /// No reply came within the deadline.
    #[error("redis gave no reply within {0:?}")]
    TimedOut(Duration),
    /// No reply came within the deadline, although other calls were answered meanwhile.
    #[error("redis answered others, but gave this call no reply within {0:?}")]
    Overtaken(Duration),
    /// Too many calls wait already, in total or for the same key; nothing was sent.
    #[error("too many calls wait for redis already")]
    Overloaded,
    /// The call got no permit, or a server that is slow but reachable did not load its script, within the deadline; it was not run.
    #[error("too many calls are in flight to redis: this one was not sent within {0:?}")]
    NotSent(Duration),
    /// The server did not load the script again within the deadline, nor answer other calls; the script was not run.
    #[error("redis did not load the script within {0:?}")]
    NotLoaded(Duration),
    /// The keys are migrating to another node of the cluster; nothing was changed.
    #[error("the keys are moving to another cluster node: {0}")]
    Moving(String),
    /// The server's access rules forbid the call; holds its reply.
    #[error("redis denied the call: {0}")]
    Denied(String),
    /// The server, or the script, replied with an error; holds the reply.
    #[error("redis replied: {0}{fix}", fix = fix(.0))]
    Server(String),
}

impl CallError {
    /// Whether the script may have run. Such a call must never be repeated blindly.
    #[must_use]
    pub(crate) fn fate_unknown(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::TimedOut(_) | Self::Overtaken(_))
    }

    /// The kind of error that it is for a caller of the store.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Overtaken(_) => StoreErrorKind::Overtaken,
            unknown if unknown.fate_unknown() => StoreErrorKind::TimedOut,
            Self::Overloaded | Self::NotSent(_) => StoreErrorKind::Overloaded,
            Self::Denied(_) => StoreErrorKind::Forbidden,
            Self::Server(_) => StoreErrorKind::Failed,
            _ => StoreErrorKind::Unavailable,
        }
    }

    /// A name for a call that has ended with this, for labels of metrics: the kind, or why the call is repeated.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Moving(_) => "redirected",
            error if error.is_no_script() => "script_missing",
            error => error.kind().as_str(),
        }
    }

    /// The server sends no replies.
    pub(crate) fn no_replies() -> Self {
        Self::Unavailable("redis gives no replies".into())
    }

    /// Classifies an error reply. Returns `None` for a text that no server sends as one.
    pub(crate) fn from_reply(text: &str) -> Option<Self> {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        if starts(&NOT_SERVING) {
            Some(Self::Unavailable(text.to_owned().into()))
        } else if starts(&MOVING) {
            Some(Self::Moving(text.into()))
        } else if is_denial(text) {
            Some(Self::Denied(text.into()))
        } else if is_reply(text) {
            Some(Self::Server(text.into()))
        } else {
            None
        }
    }

    /// Converts the error of a step before the call is sent: whatever its fate, the call did nothing.
    pub(crate) fn before_call(self) -> Self {
        match self {
            Self::Lost(text) => Self::Unavailable(text.into()),
            Self::TimedOut(deadline) | Self::Overtaken(deadline) => Self::NotLoaded(deadline),
            error => error,
        }
    }

    /// Whether a server that refuses a call for several decisions might answer some of them in calls of their own. Nothing was done then.
    pub(crate) fn is_of_some_decisions(&self) -> bool {
        match self {
            // The memory is full, the server has become a replica, or one of the decisions is invalid.
            Self::Server(_) => !self.is_no_script(),
            // The user may read keys but not write them.
            Self::Denied(_) => true,
            // Some of the keys have migrated.
            Self::Moving(reply) => reply.starts_with("TRYAGAIN"),
            _ => false,
        }
    }

    /// Whether the server does not know the script.
    pub(crate) fn is_no_script(&self) -> bool {
        matches!(self, Self::Server(text) if text.starts_with("NOSCRIPT"))
    }

    /// Whether the server refuses the command itself: the user may not run it, or the server does not have it.
    pub(crate) fn refuses_command(&self) -> bool {
        match self {
            Self::Denied(reply) => reply.starts_with("NOPERM") && reply.contains("permissions to run"),
            Self::Server(reply) => UNKNOWN.iter().any(|prefix| reply.starts_with(prefix)),
            _ => false,
        }
    }

    /// Merges the refusals of `SCRIPT LOAD` and `EVAL`, one of which a server must accept: granting a missing permission is enough.
    pub(crate) fn neither(load: Self, eval: Self) -> Self {
        let both = |first: &str, second: &str| format!("{}, and {}", first.trim_end(), second.trim_end());
        match (load, eval) {
            (Self::Denied(load), Self::Denied(eval) | Self::Server(eval)) => Self::Denied(both(&load, &eval)),
            (Self::Server(load), Self::Denied(eval)) => Self::Denied(both(&eval, &load)),
            (Self::Server(load), Self::Server(eval)) => Self::Server(both(&load, &eval)),
            (_, eval) => eval,
        }
    }

    /// Whether the server has become a replica.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Server(text) if text.starts_with("READONLY"))
    }

    /// Whether the node replied that the cluster is down, to this call or to one that was in flight with it.
    pub(crate) fn is_cluster_down(&self) -> bool {
        match self {
            Self::Unavailable(text) => text.starts_with(CLUSTER_DOWN),
            Self::Lost(text) => text.starts_with(CLUSTER_DOWN),
            _ => false,
        }
    }

    /// Whether the server has replied that it serves no calls at the moment.
    pub(crate) fn is_loading(&self) -> bool {
        matches!(self, Self::Unavailable(text) if NOT_SERVING.iter().any(|prefix| text.starts_with(prefix)))
    }
}

/// Why a connection cannot be opened. All of these errors are permanent: connecting again does not help.
///
/// `url` is the server, or the URL with its password masked, `reply` what the server replied, and `version` its version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of one name are described once, above")]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("`{url}` is not a redis url: {reason}; accepted are {accepted}", accepted = SCHEMES)]
    Url { url: String, reason: String },
    /// The URL asks for TLS, which is not compiled in.
    #[error("`{url}` needs tls: enable the feature `redis-tls` of portcullis, or `tls` of portcullis-redis")]
    TlsDisabled { url: String },
    /// TLS cannot be set up on this machine.
    #[error("tls cannot be set up: {0}")]
    Tls(String),
    /// The root certificates cannot be parsed.
    #[error(
        "the root certificate cannot be used: {0}; give it in pem, which begins with `-----BEGIN CERTIFICATE-----`"
    )]
    RootCertificate(String),
    /// The server rejected the credentials.
    #[error("{url} refused the credentials: {reply}; put the right user and password in the url")]
    Credentials { url: String, reply: String },
    /// The user lacks a permission.
    #[error(
        "{url} denied its user a command: {reply}; it needs at least \
         `+evalsha +script|load +time +get +set ~<namespace>:*`, or `+evalsha +eval` in place of \
         `+evalsha +script|load`; for a sliding log also `+getrange +setrange +pexpire`, in a cluster also \
         `+cluster|slots +asking`, behind sentinels also `+role`, with the number of a database also `+select`, without a \
         password also `+ping`"
    )]
    Permission { url: String, reply: String },
    /// The server does not run Lua scripts.
    #[error(
        "{url} does not run lua scripts: {reply}; enable EVALSHA, and SCRIPT LOAD or EVAL; on valkey load the lua module"
    )]
    Scripting { url: String, reply: String },
    /// The server is too old for the scripts.
    #[error(
        "{url} is redis {version}: its scripts cannot write after they have read the clock; update it to at least \
         5.0"
    )]
    Outdated { url: String, version: String },
    /// The server does not have the database in the URL.
    #[error("{url} has no such database: {reply}; leave the number out, or raise `databases` on the server")]
    Database { url: String, reply: String },
    /// The server does not speak the Redis protocol.
    #[error("{url} does not speak the redis protocol: {reply}")]
    Protocol { url: String, reply: String },
    /// The server is part of a cluster, and the URL is for a single server.
    #[error(
        "{url} is a node of a cluster, which has only some of the keys: use redis-cluster:// or rediss-cluster://"
    )]
    Cluster { url: String },
    /// The server is not a sentinel.
    #[error("{url} is not a sentinel: {reply}; give the port of the sentinels, or use redis:// or rediss://")]
    NotSentinel { url: String, reply: String },
    /// The server is not part of a cluster.
    #[error("{url} is not part of a cluster: {reply}; use redis:// or rediss://")]
    NotCluster { url: String, reply: String },
}

impl ConnectError {
    /// The code of the error, such as `PC305`, by which the page "Warnings and errors" says what it means and what to do. A line of the log
    /// about the error has it in the field `code`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use portcullis::redis::{RedisStore, SetupError};
    ///
    /// let Err(SetupError::Connect(error)) = RedisStore::builder("http://127.0.0.1").connect().await else {
    ///     panic!("it is no url of redis")
    /// };
    /// assert_eq!(error.code(), "PC317");
    /// # }
    /// ```
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => codes::REDIS_URL,
            Self::TlsDisabled { .. } => codes::REDIS_TLS_DISABLED,
            Self::Tls(_) => codes::REDIS_TLS,
            Self::RootCertificate(_) => codes::REDIS_ROOT_CERTIFICATE,
            Self::Credentials { .. } => codes::REDIS_CREDENTIALS,
            Self::Permission { .. } => codes::REDIS_PERMISSION,
            Self::Scripting { .. } => codes::REDIS_SCRIPTING,
            Self::Outdated { .. } => codes::REDIS_OUTDATED,
            Self::Database { .. } => codes::REDIS_DATABASE,
            Self::Protocol { .. } => codes::REDIS_PROTOCOL,
            Self::Cluster { .. } => codes::REDIS_CLUSTER_NODE,
            Self::NotSentinel { .. } => codes::REDIS_NOT_SENTINEL,
            Self::NotCluster { .. } => codes::REDIS_NOT_CLUSTER,
        }
    }

    /// Returns the permanent error that a server's reply stands for, if any.
    pub(crate) fn from_reply(url: &str, reply: &str) -> Option<Self> {
        let (url, reply, has) = (url.to_owned(), reply.to_owned(), |part: &str| reply.contains(part));
        if is_credentials(&reply) {
            Some(Self::Credentials { url, reply })
        } else if is_denial(&reply) {
            Some(Self::Permission { url, reply })
        } else if has("DB index is out of range") || has("invalid DB index") {
            Some(Self::Database { url, reply })
        } else if has("Decode Error") {
            Some(Self::Protocol { url, reply })
        } else if has("cluster support disabled") {
            Some(Self::NotCluster { url, reply })
        } else if has("unknown command") && has("SENTINEL") {
            Some(Self::NotSentinel { url, reply })
        } else if has("unknown command") || has("unknown subcommand") || has("scripting engine") {
            Some(Self::Scripting { url, reply })
        } else {
            None
        }
    }
}

fn is_credentials(reply: &str) -> bool {
    ["WRONGPASS", "NOAUTH", "ERR invalid password"].iter().any(|prefix| reply.starts_with(prefix))
}

fn is_denial(reply: &str) -> bool {
    is_credentials(reply)
        || reply.starts_with("NOPERM")
        || reply.contains("ACL failure in script")
        || reply.contains("can't run this command or subcommand")
}

/// Whether a text is an error reply: these start with a code in capitals, and a client's own messages are sentences.
pub(crate) fn is_reply(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The schemes, for error messages.
const SCHEMES: &str = "redis://, rediss://, redis-cluster://, rediss-cluster://, \
    redis-sentinel:// and rediss-sentinel://, or valkey in place of redis";

/// What an operator can do about an error.
fn fix(reply: &str) -> &'static str {
    if reply.contains("OOM command not allowed") {
        "; raise its `maxmemory`, or keep limits on a server of their own"
    } else if reply.starts_with("PORTCULLIS bad clock") {
        "; synchronise the clocks of both machines"
    } else {
        ""
    }
}

const CLUSTER_DOWN: &str = "CLUSTERDOWN";

/// Prefixes of the replies of a server that does not have a command, because of its version or its configuration.
const UNKNOWN: [&str; 2] = ["ERR unknown command", "ERR unknown subcommand"];

/// Prefixes of the replies of a server that does not run anything until something changes on its side.
const NOT_SERVING: [&str; 4] = [CLUSTER_DOWN, "LOADING", "MASTERDOWN", "BUSY "];

/// Prefixes of a cluster node's replies that redirect a call.
const MOVING: [&str; 3] = ["MOVED ", "ASK ", "TRYAGAIN"];
