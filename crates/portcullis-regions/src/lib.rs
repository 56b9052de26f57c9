//! Limits over several data centres: each region decides on its own store, and takes budget in advance from a home store.
//!
//! [`RegionalStore`] decorates the store of a region. [`Shares`] divides each limit beforehand: every region keeps a fixed share, and
//! the rest is the home store's. A region that needs more than its share buys units at home in the background, as [`purchase`] decides.
//!
//! ```
//! use portcullis::regions::{RegionalStore, Shares};
//! use portcullis::store::{Checks, MemoryStore, Store};
//! use portcullis::{Policy, Quota, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (europe, home) = (MemoryStore::new(), MemoryStore::new());
//! // Three regions have 10 % of each limit each, home has 70 %.
//! let shares = Shares::equal(3)?.set_aside(30)?;
//! let store = RegionalStore::builder(europe, home, shares).name("eu").build()?;
//!
//! let mut hasher = Secret::published().hasher();
//! hasher.writer().part("user", b"ada");
//! let checks = Checks::one(Policy::sliding_log("daily", Quota::per_day(100)), hasher.finish()?, 1);
//! let mut admitted = 0;
//! for _ in 0..200 {
//!     admitted += u64::from(store.check(checks.clone()).await?.is_allowed());
//!     // Purchases are made in the background.
//!     tokio::task::yield_now().await;
//! }
//! // The region has all of the demand: it gets its own share and that of home.
//! assert_eq!(admitted, 80);
//! # Ok(())
//! # }
//! ```

mod builder;
mod figures;
mod held;
mod ledger;
pub mod purchase;
mod shares;
mod store;
mod trade;

pub use builder::{NoRuntime, RegionalStoreBuilder};
pub use shares::{Shares, SharesError};
pub use store::RegionalStore;
