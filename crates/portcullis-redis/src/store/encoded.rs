//! The words of the decisions that are made most often.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use portcullis_core::store::Check;

use crate::protocol::wire::CallWords;
use crate::stats::{THREAD_GROUPS, thread_group};

/// The words of decisions about hot keys, so that equal decisions share them. The words depend on nothing but the check. Each group of threads
/// has entries of its own. One is replaced when a decision misses it that was the last one to miss it as well.
pub(crate) struct EncodedDecisions {
    hash: RandomState,
    /// [`ENTRIES`] for each group of threads.
    entries: Box<[Entry]>,
}

#[derive(Default)]
struct Entry {
    /// The hash of the decision that missed it last.
    missed: AtomicU64,
    known: Mutex<Option<(Check, Arc<CallWords>)>>,
}

impl EncodedDecisions {
    pub(crate) fn new() -> Self {
        Self {
            hash: RandomState::default(),
            entries: (0..ENTRIES * THREAD_GROUPS).map(|_| Entry::default()).collect(),
        }
    }

    /// Returns the words of a decision with this check, which `encode` makes if they are not known.
    pub(crate) fn get_or(&self, check: &Check, encode: impl FnOnce() -> Arc<CallWords>) -> Arc<CallWords> {
        let hash = self.hash.hash_one((check.key.fingerprint(), check.policy.digest(), check.cost));
        let own = thread_group() * ENTRIES;
        let index = usize::try_from(hash % ENTRIES as u64).ok().map(|index| own + index);
        let Some(entry) = index.and_then(|index| self.entries.get(index)) else { return encode() };
        // Another thread of the group must not be waited for.
        let Ok(known) = entry.known.try_lock() else { return encode() };
        if let Some((known, words)) = &*known
            && known == check
        {
            return Arc::clone(words);
        }
        drop(known);
        let words = encode();
        if entry.missed.swap(hash, Relaxed) == hash
            && let Ok(mut known) = entry.known.try_lock()
        {
            *known = Some((check.clone(), Arc::clone(&words)));
        }
        words
    }
}

/// Each has about half a kilobyte.
const ENTRIES: usize = 32;

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota};

    use super::*;
    use crate::store::tests::key;

    #[test]
    fn a_decision_is_kept_when_it_is_made_again() {
        let encoded = EncodedDecisions::new();
        let policy = Policy::gcra("a", Quota::per_minute(5));
        let check = Check { policy, key: key(&["ada"]), cost: 1 };
        let get = |check: &Check| encoded.get_or(check, Arc::default);
        let [first, second, third] = [(); 3].map(|()| get(&check));
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &third));
    }

    #[test]
    fn only_equal_decisions_share_their_words() {
        let encoded = EncodedDecisions::new();
        let quotas = [Quota::per_minute(5), Quota::per_minute(6)];
        let [five, six] = quotas.map(|quota| Policy::gcra("a", quota));
        let check =
            |policy: &Policy, user: &str, cost| Check { policy: policy.clone(), key: key(&[user]), cost };
        let checks =
            [check(&five, "ada", 1), check(&five, "ada", 2), check(&five, "grace", 1), check(&six, "ada", 1)];
        for _ in 0..3 {
            let words = checks.each_ref().map(|check| {
                let [_, _, third] = [(); 3].map(|()| encoded.get_or(check, Arc::default));
                third
            });
            for (index, own) in words.iter().enumerate() {
                assert!(words[..index].iter().all(|other| !Arc::ptr_eq(other, own)));
            }
        }
    }

    #[test]
    fn many_keys_take_no_more_entries() {
        let encoded = EncodedDecisions::new();
        let policy = Policy::gcra("a", Quota::per_minute(5));
        for user in 0..1_000 {
            let check = Check { policy: policy.clone(), key: key(&[&user.to_string()]), cost: 1 };
            for _ in 0..2 {
                drop(encoded.get_or(&check, Arc::default));
            }
        }
        let kept = encoded.entries.iter().filter(|entry| entry.known.lock().unwrap().is_some()).count();
        assert!((1..=32).contains(&kept), "{kept}");
    }
}
