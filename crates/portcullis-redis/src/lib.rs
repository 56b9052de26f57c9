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
//! **What decides.** A Lua script, put together from one function per algorithm in use and a driver. It reads the
//! server's clock once, decides all policies of a request, then writes. The figures of the answer are computed from the
//! stored state by `portcullis-core`, the same as for any other store.
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
