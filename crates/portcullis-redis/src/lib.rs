//! A store in Redis, Valkey or Redis Cluster, through `fred`: at most one round trip per decision, on the server's clock.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use portcullis::redis::RedisStore;
//!
//! let store = RedisStore::builder("redis://127.0.0.1:6379").namespace("shop").connect().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! **Keys.** One string per key and policy, `<namespace>:v2:<secret id>:{<fingerprint>}:<policy>:<strategy>`, with an expiry
//! that is set in the same step as the state. After a full stop, the name ends with the [structure](portcullis_core::store::Structure)
//! of the strategy if it has one, as in `fixed_window.60s`: windows of two lengths have states of their own. The fingerprint of a key of several parts is `{<first part>}<all parts>`, so
//! that all states of a user are in one slot of a cluster.
//!
//! | strategy | value | reads and writes of a decision |
//! |---|---|---|
//! | token bucket, GCRA, leaky bucket | one number, or two where the rate divides unevenly | one and one |
//! | fixed window, calendar window | three numbers | one and one |
//! | sliding window | three numbers and a count of 1 to 5 bytes for each slot | one and one |
//! | sliding log | a ring of 8 bytes per unit, at most twice the room that its units need | up to 64 units one and one; beyond, at most 25 and four, or six where other keys are written too |
//! | requests in flight | a header of three numbers, and two numbers for each permit that is held | one and one |
//!
//! Numbers are doubles in 8 bytes, and counts are integers, both with the least significant byte first. The stamps of a log are
//! integers, and the numbers of requests in flight doubles, with the most significant byte first.
//!
//! A key that has a [grant or a block](portcullis_core::overrides) has a second string, whose name ends in `:override`. Only the
//! checks of policies that [allow overrides](portcullis_core::Policy::allow_overrides) read it.
//!
//! A denial or a peek writes nothing, except to repair what it found: a value that this store did not write, or a state from
//! before the server's clock was set back.
//!
//! **Scripts.** One Lua script decides, whatever the algorithms. It reads the server's clock once, decides all policies of a
//! request, then writes. `portcullis-core` computes the figures of the answer from the stored state, as for any other store.
//!
//! **Permissions.** The server's user needs at least `+evalsha +script|load +get +set +time ~<namespace>:*`, and for a sliding
//! log also `+getrange +setrange +pexpire`; in a cluster also `+cluster|slots +asking`, behind sentinels also `+role`, with a
//! database number `+select`, and without a password `+ping`. A `fred` client of your own also needs the commands that `fred`
//! sends, in a cluster `+cluster|info`. If `SCRIPT LOAD` cannot be permitted or is disabled, `+eval` in place of `+script|load`
//! is enough: after `NOSCRIPT`, each call that misses the script then sends its source by `EVAL`, which loads it as well.
//!
//! **Leases.** A policy with a [lease](portcullis_core::Policy::lease) lets this process charge units of its hot keys in advance, and
//! spend them without a call; [`portcullis_core::lease`] has the protocol and its bound. At most 4 096 keys are observed and leased. What
//! is left of a lease is refunded when it has expired, by [`return_leases`](RedisStore::return_leases), and when the store is
//! dropped.
//!
//! **Combined calls.** A check is sent at once if fewer than two calls are on their way on a connection, in a cluster for its slot.
//! Checks that arrive meanwhile leave together, in the order of their arrival: at most 128 in a call, and fewer with sliding windows of
//! many slots. Equal checks of one key that follow each other are one step of the server: up to 256 of them join others in a call.
//! Checks wait for at most 1/16 of the deadline. Each is charged as in a call of its own, and has its own reply, error and deadline. Checks
//! of a sliding log, refunds, settlements and resets have calls of their own.
//!
//! **Overload.** At most 1 024 calls are in flight on a connection and 10 000 wait, for one key at most 64 and 625. Each check of a
//! combined call counts, from when it waits for that call, but those that have joined an equal one. A check beyond that, or
//! one that is not sent within its deadline, is an error of the kind
//! [`Overloaded`](portcullis_core::StoreErrorKind::Overloaded) and was not sent. A check that gets no reply in time while
//! others are answered is [`Overtaken`](portcullis_core::StoreErrorKind::Overtaken). Neither is an outage. A policy that has
//! denied a key denies it again without a round trip, for the same cost or more, until its wait is over and for at most 1 s;
//! see [`denial_memory`](RedisStoreBuilder::denial_memory) for what that changes after a refund by another instance.
//!
//! **Outages.** Every call has a deadline, a call whose result is unknown is never repeated, waiting calls are bounded, and the
//! connection is renewed without limit. Once a call got no reply and no other call has got one since, one call at a time is sent as a
//! probe, every 10 ms at first and every half second at most, and every other check fails at once, which costs no allocation. In a cluster
//! this applies to each node separately, until a replica is promoted. The error contains for
//! [how long](portcullis_core::StoreError::outage) no call was answered.
//!
//! | the server's reply | what was charged | what happens |
//! |---|---|---|
//! | none until the deadline, or the connection breaks | unknown | the error reports it ([`TimedOut`](portcullis_core::StoreErrorKind::TimedOut), or `Overtaken` if others were answered meanwhile) |
//! | `NOSCRIPT` | nothing | the script is loaded, once for all calls that miss it, and the call repeated; if the server refuses `SCRIPT LOAD`, the call is repeated as an `EVAL` |
//! | `MOVED`, `ASK` | nothing | the call is repeated where the reply points; without a URL for a cluster, unsupported |
//! | `TRYAGAIN` | nothing | the call is repeated after some 10 ms, a few times |
//! | `READONLY` | nothing | in a cluster the call is repeated on the node that now serves the slot; else the connection is renewed |
//! | `LOADING`, `MASTERDOWN`, `BUSY`, `CLUSTERDOWN` | nothing | unavailable; calls in flight behind one with the reply `CLUSTERDOWN` are unknown |
//! | `OOM` | nothing | failed, with the setting to change on the server |
//! | `MISCONF`, `NOREPLICAS` and any other error | nothing | failed, with the reply |
//! | `NOPERM` | nothing | forbidden |
//! | one of the three lines above, `TRYAGAIN`, or `READONLY` without a cluster, to a combined call | nothing | each check is sent by itself |
//!
//! See [`RedisStoreBuilder`] for the options.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod cluster;
mod connection;
mod fred;
mod lock;
mod protocol;
#[cfg(feature = "recorded")]
mod recorded;
mod resilience;
mod stats;
mod store;
mod transport;

pub use builder::{RedisStoreBuilder, SetupError};
pub use protocol::keys::NamespaceError;
pub use store::RedisStore;
pub use transport::ConnectError;
