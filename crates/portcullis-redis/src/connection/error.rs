//! What can go wrong, sorted by what the caller may conclude from it.

use std::borrow::Cow;
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::types::Value;

/// Why a call gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CallError {
    /// Nobody serves the call now; nothing was done.
    #[error("redis is unavailable: {0}")]
    Unavailable(Cow<'static, str>),
    /// The connection broke while the call was under way.
    #[error("the connection to redis broke during the call: {0}")]
    Lost(String),
    /// No reply came within the deadline.
    #[error("redis gave no reply within {0:?}")]
    TimedOut(Duration),
    /// No reply came within the deadline, although other calls were answered meanwhile.
    #[error("redis answered others, but gave this call no reply within {0:?}")]
    Overtaken(Duration),
    /// Too many calls wait already, in all or for the same key; nothing was sent.
    #[error("too many calls wait for redis already")]
    Overloaded,
    /// So many calls were in flight that this one was not sent within the deadline; nothing was sent.
    #[error("too many calls are in flight to redis: this one was not sent within {0:?}")]
    NotSent(Duration),
    /// The server has lost the script and did not load it again within the deadline; the script was not run.
    #[error("redis did not load the script within {0:?}")]
    NotLoaded(Duration),
    /// The keys are on their way to another node of the cluster; nothing was changed.
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
    /// Whether the script may have run all the same. Such a call must never be repeated blindly.
    #[must_use]
    pub(crate) fn fate_unknown(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::TimedOut(_) | Self::Overtaken(_))
    }

    /// Nobody gets a reply.
    pub(super) fn silent() -> Self {
        Self::Unavailable("redis gives no replies".into())
    }

    /// Sorts an error of fred, which gives most of them one kind, by its text. `next` says that no call that was sent
    /// before this one still waited for its reply.
    pub(super) fn from_fred(error: &Error, next: bool) -> Self {
        let text = error.details();
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        match error.kind() {
            ErrorKind::Backpressure => Self::Overloaded,
            _ if NEVER_SENT.contains(&text) => Self::Unavailable(text.to_owned().into()),
            // Not only to the call that was refused so: fred fails all that are in flight with the same words.
            _ if text.starts_with(CLUSTER_DOWN) && !next => Self::Lost(text.into()),
            _ if starts(&UNSERVED) => Self::Unavailable(text.to_owned().into()),
            _ if text == REDIRECTED || starts(&MOVING) => Self::Moving(text.into()),
            _ if is_denial(text) => Self::Denied(text.into()),
            _ if is_reply(text) => Self::Server(text.into()),
            _ => Self::Lost(reason_of(error).to_owned()),
        }
    }

    /// Whether a server has answered, if only with an error.
    pub(super) fn is_answer(result: &Result<Value, Error>) -> bool {
        result.as_ref().map_or_else(|error| is_reply(error.details()), |_| true)
    }

    /// The same of a step that comes before the call is sent: whatever became of it, the call did nothing.
    pub(super) fn before_the_call(self) -> Self {
        match self {
            Self::Lost(text) => Self::Unavailable(text.into()),
            Self::TimedOut(deadline) | Self::Overtaken(deadline) => Self::NotLoaded(deadline),
            error => error,
        }
    }

    /// Whether the server does not know the script.
    pub(super) fn is_no_script(&self) -> bool {
        matches!(self, Self::Server(text) if text.starts_with("NOSCRIPT"))
    }

    /// Whether the server has become a replica.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Server(text) if text.starts_with("READONLY"))
    }

    /// Whether the node takes the cluster for down, or did so for a call that was in flight with this one.
    pub(super) fn is_cluster_down(&self) -> bool {
        match self {
            Self::Unavailable(text) => text.starts_with(CLUSTER_DOWN),
            Self::Lost(text) => text.starts_with(CLUSTER_DOWN),
            _ => false,
        }
    }

    /// Whether the server has answered that it does not serve anybody for the moment.
    pub(super) fn is_loading(&self) -> bool {
        matches!(self, Self::Unavailable(text) if UNSERVED.iter().any(|prefix| text.starts_with(prefix)))
    }
}

/// What went wrong, in words. Of an I/O error fred keeps the debug form, which has the words in its middle.
pub(super) fn reason_of(error: &Error) -> &str {
    let words = error.details().split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    words.map_or(error.details(), |(words, _)| words)
}

/// Why a connection cannot be opened: only what does not heal by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("`{url}` is not a redis url: {reason}; accepted are {accepted}", accepted = SCHEMES)]
    Url {
        /// The URL, its password masked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL asks for TLS, which is not compiled in.
    #[error("`{url}` needs tls: enable the feature `redis-tls` of portcullis, or `tls` of portcullis-redis")]
    TlsDisabled {
        /// The URL, its password masked.
        url: String,
    },
    /// TLS cannot be set up on this machine.
    #[error("tls cannot be set up: {0}")]
    Tls(String),
    /// What should be the certificates to trust is none.
    #[error(
        "the root certificate cannot be used: {0}; give it in pem, which begins with `-----BEGIN CERTIFICATE-----`"
    )]
    RootCertificate(String),
    /// The server wants other credentials.
    #[error("{url} refused the credentials: {reply}; put the right user and password in the url")]
    Credentials {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
    /// The user may not do what is needed.
    #[error(
        "{url} denied its user a command: {reply}; the least it needs is \
         `+evalsha +script|load +time +get +set ~<namespace>:*`, for a sliding log also \
         `+getrange +setrange +pexpire`, in a cluster also `+cluster|slots +asking`, behind sentinels also `+role`, with the \
         number of a database also `+select`, without a password also `+ping`"
    )]
    Permission {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
    /// The server does not run Lua scripts.
    #[error(
        "{url} does not run lua scripts: {reply}; enable EVALSHA and SCRIPT LOAD, on valkey load the lua module"
    )]
    Scripting {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
    /// The server is older than what the scripts need.
    #[error(
        "{url} is redis {version}: its scripts may not write once they have read the clock; update it, to 5.0 at the least"
    )]
    Outdated {
        /// The server.
        url: String,
        /// What it is.
        version: String,
    },
    /// The server has no database of the number in the URL.
    #[error("{url} has no such database: {reply}; leave the number out, or raise `databases` on the server")]
    Database {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
    /// What listens there is no Redis.
    #[error("what listens at {url} does not speak the redis protocol: {reply}")]
    Protocol {
        /// The URL, its password masked.
        url: String,
        /// What could not be understood.
        reply: String,
    },
    /// The server is part of a cluster, and the URL is for a single one.
    #[error(
        "{url} is a node of a cluster, which has only some of the keys: use redis-cluster:// or rediss-cluster://"
    )]
    Cluster {
        /// The server.
        url: String,
    },
    /// What should be a sentinel is none.
    #[error("{url} is not a sentinel: {reply}; give the port of the sentinels, or use redis:// or rediss://")]
    NotSentinel {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
    /// The server is not part of a cluster.
    #[error("{url} is not part of a cluster: {reply}; use redis:// or rediss://")]
    NotCluster {
        /// The server.
        url: String,
        /// Its reply.
        reply: String,
    },
}

impl ConnectError {
    /// Names the fix if the reply of a server is one that time does not heal.
    pub(super) fn from_reply(url: &str, reply: &str) -> Option<Self> {
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

/// Error replies start with a code in capitals; what fred says itself is a sentence.
fn is_reply(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The schemes, for error messages.
const SCHEMES: &str = "redis://, rediss://, redis-cluster://, rediss-cluster://, \
    redis-sentinel:// and rediss-sentinel://, or valkey in place of redis";

/// With no redirection allowed fred says this after an ASK, and after a MOVED once it has read where the
/// slots are now.
const REDIRECTED: &str = "Too many redirections.";

/// What to do about an error that an operator can mend.
fn fix(reply: &str) -> &'static str {
    if reply.contains("OOM command not allowed") {
        "; raise its `maxmemory`, or keep limits on a server of their own"
    } else {
        ""
    }
}

const CLUSTER_DOWN: &str = "CLUSTERDOWN";

/// How replies begin that a server gives instead of running anything, until something changes on its side.
const UNSERVED: [&str; 4] = [CLUSTER_DOWN, "LOADING", "MASTERDOWN", "BUSY "];

/// How replies begin by which a node of a cluster sends a call elsewhere.
const MOVING: [&str; 3] = ["MOVED ", "ASK ", "TRYAGAIN"];

/// What fred says of a command that it did not write to a socket: the first and the second of these where it takes a
/// command, the fourth where the router has no connection for it, the last of what is left when the router has ended.
///
/// "Too many failed write attempts." is not among them: fred says it also of commands that were in flight
/// when it dropped the connection to another node of the cluster. "channel closed" neither: so end the commands of a
/// router that was aborted, written or not.
const NEVER_SENT: [&str; 5] = [
    "Connection closed unexpectedly.",
    "Client is not initialized.",
    "Failed to send command to router.",
    "Failed to route command.",
    "Canceled.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &'static str) -> CallError {
        CallError::from_fred(&Error::new(ErrorKind::Unknown, text), false)
    }

    #[test]
    fn sorts_by_what_may_have_happened() {
        assert!(sorted("NOSCRIPT No matching script.").is_no_script());
        for moving in [
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MOVED 0 127.0.0.1:1",
            "ASK 0 127.0.0.1:1",
            "Too many redirections.",
        ] {
            assert!(matches!(sorted(moving), CallError::Moving(_)), "{moving}");
        }
        assert!(matches!(sorted("NOPERM this user has no permissions"), CallError::Denied(_)));
        for undone in ["Failed to route command.", "LOADING Redis is loading", "BUSY Redis is busy"] {
            assert!(matches!(sorted(undone), CallError::Unavailable(_)), "{undone}");
        }
        for unknown in
            ["CLUSTERDOWN The cluster is down", "Too many failed write attempts.", "channel closed"]
        {
            assert!(sorted(unknown).fate_unknown(), "{unknown}");
        }
        assert!(!sorted("OOM command not allowed").fate_unknown());
    }

    #[test]
    fn a_cluster_that_is_down_did_nothing_for_the_call_that_was_next() {
        let error = Error::new(ErrorKind::Cluster, "CLUSTERDOWN The cluster is down");
        let [next, behind] = [true, false].map(|next| CallError::from_fred(&error, next));
        assert!(next.is_cluster_down() && behind.is_cluster_down());
        assert!(!next.fate_unknown() && behind.fate_unknown());
    }

    #[test]
    fn a_broken_connection_is_told_in_words() {
        let broken = std::io::Error::from_raw_os_error(104);
        let words = CallError::from_fred(&Error::from(broken), false).to_string();
        assert!(words.contains("Connection reset by peer") && !words.contains("Os {"), "{words}");
    }

    #[test]
    fn a_full_server_is_told_with_the_fix() {
        let words = sorted("OOM command not allowed when used memory > 'maxmemory'.").to_string();
        assert!(words.contains("raise its `maxmemory`"), "{words}");
        // Whatever evicts drops living limits, which is what start-up warns of.
        assert!(!words.contains("maxmemory-policy"), "{words}");
    }
}
