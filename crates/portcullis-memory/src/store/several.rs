//! Decisions on several checks.

use portcullis_core::store::Checks;
use portcullis_core::store::protocol::{self, Results};
use portcullis_core::{Clock, StoreError};

use super::MemoryStore;
use super::call::CallStates;

impl<C: Clock> MemoryStore<C> {
    /// Decides several checks of policies that read no overrides.
    // Not inlined: the checks stay where they are, and the results are written where they become an outcome.
    #[inline(never)]
    pub(super) fn check_several(&self, checks: &Checks) -> Result<Results, StoreError> {
        let (keys, mut shards, now) =
            self.lock_shards(&checks.iter().map(|check| (&check.policy, check.key)))?;
        // Most requests are admitted, and most states are small.
        if !cfg!(target_family = "wasm") && shards.admits_each(&keys, checks.iter().as_slice(), now) {
            return Ok(Results::of(checks, |index, check| {
                shards.decide(&keys[index], check, now, self.swept_per_check).expect("it was admitted")
            }));
        }
        let mut states = CallStates::new(shards, now);
        for (check, key) in checks.iter().zip(&keys) {
            states.locate(key, check.policy.strategy(), self.swept_per_check);
        }
        let results = protocol::results(checks, now, &mut states);
        states.unlock();
        Ok(results)
    }
}
