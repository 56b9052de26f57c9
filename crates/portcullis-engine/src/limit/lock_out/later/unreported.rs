//! Counts denials per key, bounded in number.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem;

use portcullis_core::Key;

/// The denials of keys since the last report.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// Where each key is in `counts`.
    places: HashMap<Key, usize>,
    counts: Vec<(Key, u32)>,
    /// Where the search for a key to forget continues.
    next: usize,
}

impl Unreported {
    /// Counts a denial. Beyond [`MAX_KEYS`] keys, a new key takes the place of one with a single denial among the next
    /// [`COMPARED`]; if all of these have more, it is not counted.
    pub(super) fn add(&mut self, key: Key) {
        if let Some(place) = self.places.get(&key) {
            let (_, count) = &mut self.counts[*place];
            *count = count.saturating_add(1);
            return;
        }
        let place = if self.counts.len() < MAX_KEYS {
            self.counts.push((key, 1));
            self.counts.len() - 1
        } else {
            let Some(place) = self.least() else { return };
            let (forgotten, _) = mem::replace(&mut self.counts[place], (key, 1));
            self.places.remove(&forgotten);
            place
        };
        self.places.insert(key, place);
    }

    /// Takes all, the keys with the most denials first.
    pub(super) fn take(&mut self) -> Vec<(Key, u32)> {
        // The memory is returned: a flood by many keys is rare.
        let Self { mut counts, .. } = mem::take(self);
        counts.sort_unstable_by_key(|(_, count)| Reverse(*count));
        counts
    }

    /// The place of a key with a single denial, among the next [`COMPARED`].
    fn least(&mut self) -> Option<usize> {
        let start = self.next;
        self.next = (start + COMPARED) % MAX_KEYS;
        (0..COMPARED).map(|ahead| (start + ahead) % MAX_KEYS).find(|place| self.counts[*place].1 <= 1)
    }
}

/// Of one policy: about 2 MB with the table.
pub(super) const MAX_KEYS: usize = 16_384;

/// Enough to find one that was denied once in a flood of made-up keys.
const COMPARED: usize = 16;

#[cfg(test)]
mod tests {
    use portcullis_core::Secret;

    use super::*;

    fn key(user: usize) -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().unwrap()
    }

    #[test]
    fn keys_are_taken_by_their_denials() {
        let mut denials = Unreported::default();
        for user in [1, 2, 2, 3, 3, 3] {
            denials.add(key(user));
        }
        assert_eq!(denials.take(), [(key(3), 3), (key(2), 2), (key(1), 1)]);
        assert!(denials.take().is_empty());
    }

    #[test]
    fn made_up_keys_do_not_take_the_place_of_a_guesser() {
        let mut denials = Unreported::default();
        for _ in 0..2 {
            denials.add(key(0));
        }
        for user in 1..3 * MAX_KEYS {
            denials.add(key(user));
        }
        assert_eq!((denials.counts.len(), denials.places.len()), (MAX_KEYS, MAX_KEYS));
        let taken = denials.take();
        assert_eq!((taken.len(), taken[0]), (MAX_KEYS, (key(0), 2)));
    }

    #[test]
    fn a_key_is_not_counted_where_all_others_have_more_denials() {
        let mut denials = Unreported::default();
        for user in (0..MAX_KEYS).chain(0..MAX_KEYS) {
            denials.add(key(user));
        }
        denials.add(key(MAX_KEYS));
        assert!(!denials.places.contains_key(&key(MAX_KEYS)));
        assert!(denials.take().iter().all(|(_, count)| *count == 2));
    }
}
