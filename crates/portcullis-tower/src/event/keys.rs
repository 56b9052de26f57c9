//! The keys that an event carries, if an observer asks for fingerprints.

use http::Extensions;
use portcullis_core::store::{Check, Checks};
use portcullis_core::{Key, PolicyName};
use smallvec::SmallVec;

/// The keys that the policies of one layer have found for a request, by the indexes of the policies. Made only if an observer asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundKeys(SmallVec<[(usize, Key); 2]>);

/// Where the keys of an event are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum EventKeys<'a> {
    /// The event has none, or no observer asks.
    #[default]
    None,
    Found(&'a FoundKeys),
    Checks(&'a [Check]),
    One(&'a PolicyName, Key),
}

impl FoundKeys {
    /// Adds a key, in place of one that was found for the policy before.
    pub(crate) fn add(&mut self, index: usize, key: Key) {
        match self.0.iter_mut().find(|(found, _)| *found == index) {
            Some((_, found)) => *found = key,
            None => self.0.push((index, key)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Key)> {
        self.0.iter().copied()
    }

    /// Leaves the keys in a request, in place of those of an outer layer.
    pub(crate) fn replace_in(found: Option<Box<Self>>, extensions: &mut Extensions) {
        match found {
            Some(found) => drop(extensions.insert(*found)),
            None => drop(extensions.remove::<Self>()),
        }
    }

    /// Adds keys to those in a request, which the same layer has found.
    pub(crate) fn add_to(found: Option<Box<Self>>, extensions: &mut Extensions) {
        let Some(found) = found else { return };
        let mut all = extensions.remove::<Self>().unwrap_or_default();
        for (index, key) in found.iter() {
            all.add(index, key);
        }
        extensions.insert(all);
    }
}

impl<'a> EventKeys<'a> {
    /// Those that were left in a request.
    pub(crate) fn of_request(extensions: &'a Extensions) -> Self {
        extensions.get().map_or(Self::None, Self::Found)
    }

    pub(crate) fn of_plan(found: Option<&'a FoundKeys>) -> Self {
        found.map_or(Self::None, Self::Found)
    }

    pub(crate) fn of_checks(checks: &'a Checks) -> Self {
        Self::Checks(checks.iter().as_slice())
    }
}
