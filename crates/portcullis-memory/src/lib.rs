//! The in-process store: bounded, sharded, swept incrementally.
//!
//! ```
//! use portcullis::store::{Checks, MemoryStore, Store};
//! use portcullis::{Policy, Quota, Secret};
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
//! **Bounded.** Every policy has its own [capacity](MemoryStoreBuilder::capacity) in keys and in bytes, which no other policy
//! can take, and the store has a [total](MemoryStoreBuilder::total_capacity). A key that does not fit among unexpired ones shares one of
//! 4 096 overflow states of its policy, chosen by its fingerprint. So a flood of new keys is never unlimited, takes nothing
//! from the known keys, and nothing from other policies. A settlement never puts an overflow state into debt, and a refund
//! never changes one. The first overflow of a policy is logged, and then at most one line per hour.
//!
//! **Swept incrementally.** There is no background task. Checks inspect a few entries on average and drop expired ones, which
//! changes no decision: an expired state decides exactly like an absent one.
//!
//! **Fast.** A check on one or two known keys allocates nothing, except for a sliding log that grows, and holds one lock per
//! shard for the duration of the arithmetic. A key that was denied twice in a row is denied without it.
//!
//! [`InstanceShare`] divides all limits among instances that share no store.
//!
//! [`Fallback`] combines such a store with another one, for the policies that are decided locally while that one fails.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod budget;
mod clock;
mod fallback;
mod figures;
mod overrides;
mod policies;
mod shards;
mod share;
mod store;
mod sync;
mod table;

pub use clock::SystemClock;
pub use fallback::{Fallback, FallbackBuilder};
pub use figures::stats::{MemoryPolicyStats, MemoryStats};
pub use share::InstanceShare;
pub use store::MemoryStore;
pub use store::builder::MemoryStoreBuilder;
pub use store::documents::MemoryDocuments;
