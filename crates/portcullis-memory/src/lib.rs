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
//! **Bounded.** A store holds its [capacity](MemoryStoreBuilder::capacity) of keys and no more, but for a few that one
//! decision over several keys may find swept. A key that finds no room
//! among living ones is charged to one overflow state per policy, which all such keys share: a flood of fresh keys is
//! never unlimited, and it takes nothing from the keys that are known. [`MemoryStore::stats`] counts it.
//!
//! **Swept as it goes.** There is no background task. Every check looks at a few entries and drops those that have
//! expired, which changes no decision: an expired state decides exactly like none.
//!
//! **Fast.** A check on one or two known keys allocates nothing, but for a sliding log that grows, and holds one lock
//! per shard for the length of the arithmetic.
//!
//! [`Fallback`] puts such a store behind another one, for the policies that are decided locally while that one fails.

mod clock;
mod fallback;
mod shards;
mod store;
mod sync;
mod table;

pub use clock::SystemClock;
pub use fallback::{Fallback, FallbackBuilder};
pub use store::{MemoryStats, MemoryStore, MemoryStoreBuilder};
