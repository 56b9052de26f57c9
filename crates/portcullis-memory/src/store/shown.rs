//! The states of keys, for tools that show them.

use portcullis_core::algorithm::State;
use portcullis_core::store::protocol::States as _;
use portcullis_core::{Clock, Key, Policy};

use super::MemoryStore;

impl<C: Clock> MemoryStore<C> {
    /// Returns the state that a key has under a policy, for tools that show it. `None` if it has none, or shares one because the store is full.
    ///
    /// ```
    /// use portcullis::store::{Checks, MemoryStore, State, Store};
    /// use portcullis::{Policy, Quota, Secret};
    ///
    /// let (store, pages) = (MemoryStore::new(), Policy::sliding_log("pages", Quota::per_day(8)));
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let key = hasher.finish()?;
    ///
    /// assert_eq!(store.state(&pages, key), None);
    /// drop(store.check(Checks::one(pages.clone(), key, 3)));
    /// let Some(State::Log(log)) = store.state(&pages, key) else { panic!("three units were charged") };
    /// assert_eq!(log.stamps().count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state(&self, policy: &Policy, key: Key) -> Option<State> {
        let state = self.lock_one(policy, key).ok()?;
        if state.entry.is_overflow() { None } else { state.get(0).cloned() }
    }
}
