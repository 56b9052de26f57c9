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
//! log `+getrange +setrange +pexpire` besides; in a cluster also `+cluster|slots +cluster|info`, behind sentinels also
//! `+role`, with the number of a database `+select`, and without a password `+ping`.
//!
//! **When the server fails.** Every call has a deadline, nothing whose fate is unknown is repeated, what waits is
//! bounded, and the connection is renewed for ever. See [`RedisStoreBuilder`].

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
