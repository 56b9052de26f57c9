//! How many places in flight each caller holds, so that one of them cannot take those of the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use portcullis_core::Secret;
use portcullis_identity::{Identity, KeyExtractor};
use portcullis_tower::internal::ListedShed as _;

use crate::limit;
use crate::shared::{Counts, Shared};

/// The places of all callers of a layer.
pub(crate) struct Places {
    key: Box<dyn KeyExtractor>,
    held: Mutex<HeldPlaces>,
}

/// The place of a request in flight. Dropped when it is not in flight any more.
pub(crate) struct Place {
    places: Arc<Places>,
    caller: Caller,
}

/// The fingerprint of a key. `None` is all requests without an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller(Option<u128>);

impl Places {
    pub(crate) fn new(key: impl KeyExtractor) -> Self {
        Self { key: Box::new(key), held: Mutex::default() }
    }

    /// `None` if the request has no share.
    pub(crate) fn caller(&self, parts: &Parts, secret: &Secret) -> Option<Caller> {
        let mut hasher = secret.hasher();
        let found = match self.key.extract(parts, &mut hasher.writer()) {
            Ok(Identity::Exempt) => return None,
            Ok(Identity::Found) => hasher.finish().ok(),
            Ok(Identity::Missing) | Err(_) => None,
        };
        Some(Caller(found.map(|key| key.fingerprint())))
    }

    /// Takes a place if there is one for this caller, as [`Shared::enter_below`] does for all. `class_share` is what requests of its class may fill, in
    /// thousandths.
    ///
    /// # Errors
    ///
    /// How many are in flight.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: Caller,
        shared: &Shared,
        class_share: u32,
    ) -> Result<(Counts, Place), u32> {
        let limit = shared.limit();
        let mut held = self.held();
        held.set_share(share_of(limit));
        let is_below = held.of(caller) < held.share;
        // What its class may fill of the ceiling: what is reserved for others stays so. The last share is for callers that hold less than theirs.
        let most_of_class = limit::most(shared.ceiling(), class_share);
        let most_of_all = if is_below { most_of_class } else { most_of_class.saturating_sub(held.share) };
        let most = limit::most(limit, class_share);
        let most = if is_below { most.saturating_add(held.beyond) } else { most }.min(most_of_all);
        let counts = shared.enter_below(most, most_of_all)?;
        held.add(caller);
        Ok((counts, Place { places: Arc::clone(self), caller }))
    }

    /// Takes a place for a request that is in flight whatever its caller holds.
    pub(crate) fn enter_anyway(self: &Arc<Self>, caller: Caller) -> Place {
        self.held().add(caller);
        Place { places: Arc::clone(self), caller }
    }

    fn held(&self) -> MutexGuard<'_, HeldPlaces> {
        // It is consistent between any two statements that can panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.held().remove(self.caller);
    }
}

/// A sixteenth of the limit, and at least four.
fn share_of(limit: u32) -> u32 {
    (limit / 16).max(4)
}

/// Places by caller. Callers without a request in flight are not in it.
#[derive(Debug, Default)]
struct HeldPlaces {
    of: HashMap<Caller, u32>,
    /// How many callers hold at least one place, at least two, and so on.
    at_least: Vec<u32>,
    share: u32,
    /// How many places callers hold beyond their shares.
    beyond: u32,
}

impl HeldPlaces {
    fn of(&self, caller: Caller) -> u32 {
        self.of.get(&caller).copied().unwrap_or(0)
    }

    fn add(&mut self, caller: Caller) {
        let held = self.of.entry(caller).or_default();
        match self.at_least.get_mut(*held as usize) {
            Some(callers) => *callers += 1,
            None => self.at_least.push(1),
        }
        *held += 1;
        self.beyond += u32::from(*held > self.share);
    }

    fn remove(&mut self, caller: Caller) {
        let Entry::Occupied(mut held) = self.of.entry(caller) else { return };
        self.beyond -= u32::from(*held.get() > self.share);
        *held.get_mut() -= 1;
        let left = *held.get();
        if left == 0 {
            held.remove();
        }
        self.at_least[left as usize] -= 1;
        self.at_least.pop_if(|callers| *callers == 0);
    }

    /// The share follows the limit.
    fn set_share(&mut self, share: u32) {
        let callers = |range: std::ops::Range<u32>| -> u32 {
            let from = self.at_least.len().min(range.start as usize);
            let to = self.at_least.len().min(range.end as usize);
            self.at_least[from..to].iter().sum()
        };
        if share > self.share {
            self.beyond -= callers(self.share..share);
        } else if share < self.share {
            self.beyond += callers(share..self.share);
        }
        self.share = share;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn beyond_is_what_exceeds_shares(
            steps in prop::collection::vec((0_u128..4, any::<bool>(), 0_u32..12), 0..200),
        ) {
            let (mut held, mut model) = (HeldPlaces::default(), HashMap::<u128, u32>::new());
            for (caller, enters, share) in steps {
                let places = model.entry(caller).or_default();
                if enters {
                    held.add(Caller(Some(caller)));
                    *places += 1;
                } else if *places > 0 {
                    held.remove(Caller(Some(caller)));
                    *places -= 1;
                }
                held.set_share(share);
                let beyond: u32 = model.values().map(|places| places.saturating_sub(share)).sum();
                prop_assert_eq!(held.beyond, beyond);
                prop_assert_eq!(held.of.len(), model.values().filter(|places| **places > 0).count());
                prop_assert_eq!(held.at_least.len(), *model.values().max().unwrap() as usize);
            }
        }
    }

    #[test]
    fn share_is_sixteenth_and_at_least_four() {
        assert_eq!([1, 20, 64, 79, 80, 1_000].map(share_of), [4, 4, 4, 4, 5, 62]);
    }
}
