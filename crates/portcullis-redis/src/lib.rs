//! The store in Redis, Valkey and Redis Cluster, through `fred`: one round trip per decision, on the server's clock.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use portcullis_redis::RedisStore;
//!
//! let store = RedisStore::builder("redis://127.0.0.1:6379").namespace("shop").connect().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! **What is stored.** One string per key and policy, `<namespace>:v1:<secret id>:{<fingerprint>}:<policy>:<strategy>`,
//! with an expiry that is set in the same step as the state. The fingerprint of a key of several parts is
//! `{<first part>}<all parts>`, so that everything about a user is in one slot of a cluster.
//!
//! | strategy | value | reads and writes of a decision |
//! |---|---|---|
//! | token bucket, GCRA, leaky bucket | one number, or two where the rate divides unevenly | one and one |
//! | fixed window | three numbers | one and one |
//! | sliding window | three numbers and a count for each slot | one and one |
//! | sliding log | a ring of 8 bytes per unit, at most twice the room that its units need | up to 64 units one and one; beyond, at most 25 and three |
//!
//! A denial or a peek writes nothing, unless to mend what it found: something that is none of ours, or a state from before
//! the server's clock was set back.
//!
//! **What decides.** A Lua script, put together from one function per algorithm in use and a driver. It reads the
//! server's clock once, decides all policies of a request, then writes. The figures of the answer are computed from the
//! stored state by `portcullis-core`, the same as for any other store.
//!
//! **What the server's user needs.** At the least `+evalsha +script|load +get +set +time ~<namespace>:*`, and for a sliding
//! log `+getrange +setrange +pexpire` besides; in a cluster also `+cluster|slots +asking`, behind sentinels also
//! `+role`, with the number of a database `+select`, and without a password `+ping`. A `fred` client of your own needs what
//! `fred` asks for, in a cluster `+cluster|info` too.
//!
//! **When too much is asked.** At most 1 024 calls are in flight on a connection and 10 000 wait, for one key at most 64 and 625.
//! A check beyond that, or whose turn does not come within its deadline, is an error of the kind
//! [`Overloaded`](portcullis_core::StoreErrorKind::Overloaded) and was not sent; one that gets no answer in time while others
//! are answered is [`Overtaken`](portcullis_core::StoreErrorKind::Overtaken). Neither is an outage. A policy that has denied a key
//! denies it again without a trip, for the same cost or more, until its wait is over and for at most 1 s; see
//! [`denial_memory`](RedisStoreBuilder::denial_memory) for what that changes after a refund by another instance.
//!
//! **When the server fails.** Every call has a deadline, nothing whose fate is unknown is repeated, what waits is
//! bounded, and the connection is renewed for ever. Once a call got no reply and nobody else did since, the others are not
//! kept waiting: one call at a time goes out to see whether the server answers again, every 10 ms at first and every half
//! second at last, and every other check is an error at once, which costs no allocation. In a cluster all of this holds for
//! each node by itself: a primary that is gone takes only its own slots along, until a replica is promoted, which is
//! noticed soon after the cluster knows. The error says for [how long](portcullis_core::StoreError::outage) nobody was answered.
//!
//! | the server says | what was charged | what happens |
//! |---|---|---|
//! | nothing until the deadline, or the connection breaks | unknown | the error says so ([`TimedOut`](portcullis_core::StoreErrorKind::TimedOut), or `Overtaken` if others were answered meanwhile) |
//! | `NOSCRIPT` | nothing | the script is loaded, once for all who miss it, and the call repeated |
//! | `MOVED`, `ASK` | nothing | the call is repeated where the reply points; without a URL for a cluster, unsupported |
//! | `TRYAGAIN` | nothing | the call is repeated after some 10 ms, a few times |
//! | `READONLY` | nothing | in a cluster the call is repeated where the slot is now; else the connection is renewed |
//! | `LOADING`, `MASTERDOWN`, `BUSY`, `CLUSTERDOWN` | nothing | unavailable; calls that were in flight behind one that was answered `CLUSTERDOWN` are unknown |
//! | `OOM` | nothing | failed, with what to set on the server |
//! | `MISCONF`, `NOREPLICAS` and any other | nothing | failed, with the reply |
//! | `NOPERM` | nothing | forbidden |
//!
//! See [`RedisStoreBuilder`] for what can be set.

mod builder;
mod connection;
mod keys;
mod scripts;
mod store;
mod wire;

pub use builder::{RedisStoreBuilder, SetupError};
pub use connection::ConnectError;
pub use keys::NamespaceError;
pub use store::RedisStore;
