//! The in-process store: bounded, sharded, swept as it goes.
//!
//! ```
//! use portcullis_core::{Checks, Policy, Quota, Secret, Store};
//! use portcullis_memory::MemoryStore;
//!
//! let store = MemoryStore::new();
//! let mut hasher = Secret::published().hasher();
//! hasher.writer().part("user", b"ada");
//! let key = hasher.finish()?;
//!
//! let policy = Policy::gcra("search", Quota::per_minute(1));
//! let mut check = || store.check(Checks::one(policy.clone(), key, 1)).into_ready().expect("memory answers at once");
//! assert!(check()?.is_allowed());
//! assert!(!check()?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Bounded.** Every policy has [room](MemoryStoreBuilder::capacity) for a number of keys and of bytes, which no other policy
//! can take, and there is a total for the store: a policy that goes beyond it is an error when it is
//! [registered](portcullis_core::Store::register), or first used. A key that finds no room among living ones shares one of
//! 4 096 overflow states of its policy, which its fingerprint chooses. So a flood of fresh keys is never unlimited, takes
//! nothing from the keys that are known, and nothing from other policies. An overflow state is never put into debt by a
//! settlement, and gets no refunds. The log says when a policy first overflows, and at most once an hour after that;
//! [`MemoryStore::stats`] counts it.
//!
//! **Swept as it goes.** There is no background task. Every check looks at a few entries and drops those that have
//! expired, which changes no decision: an expired state decides exactly like none.
//!
//! **Fast.** A check on one or two known keys allocates nothing, but for a sliding log that grows, and holds one lock
//! per shard for the length of the arithmetic.
//!
//! [`Fallback`] puts such a store behind another one, for the policies that are decided locally while that one fails.

mod budget;
mod builder;
mod clock;
mod fallback;
mod policies;
mod shards;
mod stats;
mod store;
mod sync;
mod table;
mod throttle;

pub use builder::MemoryStoreBuilder;
pub use clock::SystemClock;
pub use fallback::{Fallback, FallbackBuilder};
pub use stats::{MemoryPolicyStats, MemoryStats};
pub use store::MemoryStore;
