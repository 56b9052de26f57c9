//! The builder of a regional store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::Store;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::figures::Figures;
use crate::ledger::Ledger;
use crate::shares::Shares;
use crate::store::RegionalStore;
use crate::trade::Trader;

/// Builds a [`RegionalStore`].
#[must_use = "a builder does nothing until it builds"]
pub struct RegionalStoreBuilder {
    local: Arc<dyn Store>,
    home: Arc<dyn Store>,
    shares: Shares,
    region: String,
    keys: usize,
    deadline: Duration,
    runtime: Option<Handle>,
}

impl RegionalStore {
    /// Starts the store of a region on its own store and on the home store, which is the same for all regions and has no fallback.
    pub fn builder(local: impl Store, home: impl Store, shares: Shares) -> RegionalStoreBuilder {
        RegionalStoreBuilder::new(Arc::new(local), Arc::new(home), shares)
    }
}

impl RegionalStoreBuilder {
    /// The number of keys for which a process buys at the same time, by default.
    pub const DEFAULT_KEYS: usize = 10_000;

    fn new(local: Arc<dyn Store>, home: Arc<dyn Store>, shares: Shares) -> Self {
        let (keys, deadline) = (Self::DEFAULT_KEYS, Duration::from_secs(2));
        Self { local, home, shares, region: String::new(), keys, deadline, runtime: None }
    }

    /// Sets the name of the region, for logs.
    pub fn name(self, region: impl Into<String>) -> Self {
        Self { region: region.into(), ..self }
    }

    /// Sets for how many keys this process buys at the same time, at least 8, 10 000 by default. Other keys have the region's share.
    pub fn keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// Sets the time after which a call for a purchase is given up, 2 s by default. It matters for stores without a deadline of their own.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets the runtime on which purchases are made, by default the one in which the store is built. It needs a timer.
    pub fn runtime(self, runtime: Handle) -> Self {
        Self { runtime: Some(runtime), ..self }
    }

    /// Builds the store.
    ///
    /// # Errors
    ///
    /// If no [runtime](Self::runtime) is set, and this is not called in one.
    pub fn build(self) -> Result<RegionalStore, NoRuntime> {
        let runtime = self.runtime.or_else(|| Handle::try_current().ok()).ok_or(NoRuntime)?;
        Ok(RegionalStore::new(Trader {
            local: self.local,
            home: self.home,
            shares: self.shares,
            region: self.region.into(),
            ledger: Ledger::new(self.keys),
            figures: Figures::default(),
            runtime,
            slots: Arc::new(Semaphore::new(Trader::MAX_PENDING as usize)),
            deadline: self.deadline,
            created: Instant::now(),
        }))
    }
}

impl fmt::Debug for RegionalStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionalStoreBuilder")
            .field("shares", &self.shares)
            .field("region", &self.region)
            .field("keys", &self.keys)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The store of a region was built outside of a Tokio runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store of a region buys units in the background: build it in a Tokio runtime, or set one")]
pub struct NoRuntime;
