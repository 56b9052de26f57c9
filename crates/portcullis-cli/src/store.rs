//! Stores by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use portcullis_memory::MemoryStore;
use portcullis_testing::{ManualClock, OverStore, Pure, Subject};

/// A store that a timeline can be run against.
#[derive(Clone, Debug)]
pub(crate) enum StoreName {
    Pure,
    Memory,
}

impl StoreName {
    /// Opens it on a clock that the timelines set.
    #[expect(clippy::unused_async, reason = "a store on the network is awaited")]
    pub(crate) async fn open(&self) -> anyhow::Result<Box<dyn Subject>> {
        let clock = ManualClock::default();
        Ok(match self {
            Self::Pure => Box::new(Pure::new()),
            Self::Memory => {
                // Cases set the clock back: a state that was swept would be missed.
                let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
                Box::new(OverStore::new(Arc::new(store), clock))
            }
        })
    }
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pure" => Ok(Self::Pure),
            "memory" => Ok(Self::Memory),
            _ => Err("a store is `memory`, `pure` or a URL such as redis://127.0.0.1:6379".to_owned()),
        }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pure => "pure",
            Self::Memory => "memory",
        })
    }
}
