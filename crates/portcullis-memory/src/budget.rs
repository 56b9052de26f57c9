//! How much memory states may take.

use portcullis_core::{Strategy, Timestamp};

use crate::sync::{AtomicU64, Ordering};

/// What a store grants: to each policy, and to all of them together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) policy: Amount,
    pub(crate) total: Amount,
}

/// Keys, and the bytes that their states take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

impl Limits {
    /// The most policies that the total is enough for.
    pub(crate) fn policies(&self) -> usize {
        let by_keys = self.total.keys / self.policy.keys;
        let by_bytes = self.total.bytes / self.policy.bytes;
        by_keys.min(by_bytes).min(MAX_POLICIES)
    }
}

/// How the bytes of one policy are divided. It depends on what one state takes, and so changes with the quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// For the states of keys of their own.
    pub(crate) own: usize,
    /// The number of overflow states, whose bytes are set aside.
    pub(crate) overflow_states: usize,
    /// The most that one overflow state may have on the heap.
    pub(crate) overflow_heap: usize,
}

impl Division {
    pub(crate) fn of(bytes: usize, strategy: &Strategy) -> Self {
        let fresh = heap_of_fresh(strategy);
        let overflow_heap = if fresh == 0 { 0 } else { fresh.max(OVERFLOW_HEAP) };
        let each = ENTRY_BYTES + overflow_heap;
        let overflow_states = (bytes / 2 / each).clamp(1, MAX_OVERFLOW_STATES);
        Self { own: bytes.saturating_sub(overflow_states * each), overflow_states, overflow_heap }
    }
}

/// What a key's first state has on the heap. Nothing for the rate-based algorithms and the fixed window: their keys are
/// bounded by their number.
pub(crate) fn heap_of_fresh(strategy: &Strategy) -> usize {
    strategy.growth(None, Timestamp::EPOCH)
}

/// The bytes that the keys of one policy have taken, in all its tables.
#[derive(Debug, Default)]
pub(crate) struct Bytes(AtomicU64);

impl Bytes {
    pub(crate) fn get(&self) -> usize {
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Takes `bytes` if no more than `most` are taken then.
    pub(crate) fn take(&self, bytes: usize, most: usize) -> bool {
        let more = |taken: u64| taken.checked_add(bytes as u64).filter(|taken| *taken <= most as u64);
        bytes == 0 || self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Has `found` bytes taken instead of `taken`.
    pub(crate) fn correct(&self, taken: usize, found: usize) {
        if found > taken {
            self.0.fetch_add((found - taken) as u64, Ordering::Relaxed);
        } else if taken > found {
            self.0.fetch_sub((taken - found) as u64, Ordering::Relaxed);
        }
    }
}

/// What a key takes in the table at worst, right after the table has been made larger.
pub(crate) const ENTRY_BYTES: usize = 150;
/// Overflow states of one policy.
pub(crate) const MAX_OVERFLOW_STATES: usize = 4_096;
/// Of a log: room for 32 runs.
const OVERFLOW_HEAP: usize = 512;
/// Few enough that they are found without a lock.
pub(crate) const MAX_POLICIES: usize = 4_096;

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota, SlidingWindow};

    use super::*;

    #[test]
    fn overflow_states_take_at_most_half_of_the_bytes() {
        let quota = Quota::per_minute(100_000);
        let slots = Strategy::SlidingWindow(SlidingWindow::with_slots(quota, 1_000).unwrap());
        let strategies =
            [*Policy::gcra("a", quota).strategy(), *Policy::sliding_log("b", quota).strategy(), slots];
        for strategy in strategies {
            for bytes in [100_000, 1 << 20, 64 << 20, 1 << 30] {
                let division = Division::of(bytes, &strategy);
                let set_aside = division.overflow_states * (ENTRY_BYTES + division.overflow_heap);
                assert_eq!(division.own + set_aside, bytes);
                assert!(set_aside <= bytes / 2, "{division:?}");
            }
            assert!(Division::of(64 << 20, &strategy).overflow_states > 4_000);
        }
    }

    #[test]
    fn bytes_are_taken_up_to_the_most() {
        let bytes = Bytes::default();
        assert!(bytes.take(6, 10) && !bytes.take(5, 10) && bytes.take(4, 10));
        bytes.correct(4, 7);
        bytes.correct(9, 0);
        assert_eq!(bytes.get(), 4);
    }
}
