//! The memory that states may take.

use portcullis_core::{Strategy, Timestamp};

use crate::sync::{AtomicU64, Ordering};

/// The limits of a store: for each policy, and for all policies together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) policy: Amount,
    pub(crate) total: Amount,
    /// The maximum number of overrides of each policy that reads them.
    pub(crate) overrides: usize,
}

/// A number of keys, and of bytes for their states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

impl Limits {
    /// The maximum number of policies that fit into the total.
    pub(crate) fn policies(&self) -> usize {
        let by_keys = self.total.keys / self.policy.keys;
        let by_bytes = self.total.bytes / self.policy.bytes;
        by_keys.min(by_bytes).min(MAX_POLICIES)
    }
}

/// How the bytes of one policy are divided. The division depends on the size of a state, and so changes with the quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// Bytes for the states that belong to a single key.
    pub(crate) own: usize,
    /// The number of overflow states. Their bytes are reserved.
    pub(crate) overflow_states: usize,
    /// The maximum heap bytes of one overflow state.
    pub(crate) overflow_heap: usize,
}

impl Division {
    pub(crate) fn of(bytes: usize, strategy: &Strategy) -> Self {
        let initial = initial_heap_bytes(strategy);
        let overflow_heap = if initial == 0 { 0 } else { initial.max(OVERFLOW_HEAP) };
        let each = ENTRY_BYTES + overflow_heap;
        let overflow_states = (bytes / 2 / each).clamp(1, MAX_OVERFLOW_STATES);
        Self { own: bytes.saturating_sub(overflow_states * each), overflow_states, overflow_heap }
    }
}

/// The number of parts, a power of two, that an amount can be divided into with at least this much for each; one if it is less.
pub(crate) fn parts(amount: usize, least: usize) -> usize {
    (amount / least).checked_ilog2().map_or(1, |power| 1 << power)
}

/// The heap bytes of a key's first state. Zero for states of a fixed size: their keys are bounded by number alone.
pub(crate) fn initial_heap_bytes(strategy: &Strategy) -> usize {
    strategy.growth(None, Timestamp::EPOCH)
}

/// What a key counts for this number of heap bytes: a quarter more for a log, for blocks that the allocator cannot use again.
pub(crate) fn heap_cost(strategy: &Strategy, bytes: usize) -> usize {
    match strategy {
        Strategy::SlidingLog(_) => bytes + bytes / 4,
        Strategy::TokenBucket(_)
        | Strategy::Gcra(_)
        | Strategy::LeakyBucket(_)
        | Strategy::FixedWindow(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingWindow(_)
        | Strategy::InFlight(_) => bytes,
    }
}

/// The bytes in use by the keys of one policy, over all its shards.
#[derive(Debug, Default)]
pub(crate) struct BytesUsed(AtomicU64);

impl BytesUsed {
    pub(crate) fn get(&self) -> usize {
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Adds `bytes` unless the sum would exceed `max`. Returns whether they were added.
    pub(crate) fn take(&self, bytes: usize, max: usize) -> bool {
        let added = |used: u64| used.checked_add(bytes as u64).filter(|used| *used <= max as u64);
        bytes == 0 || self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
    }

    /// Replaces `old` bytes by `new` bytes.
    pub(crate) fn adjust(&self, old: usize, new: usize) {
        if new > old {
            self.0.fetch_add((new - old) as u64, Ordering::Relaxed);
        } else if old > new {
            self.0.fetch_sub((old - new) as u64, Ordering::Relaxed);
        }
    }
}

/// The maximum bytes of a key in the table of a shard for a state without memory on the heap: 40 bytes, with 64 % of the table in use.
pub(crate) const SMALL_ENTRY_BYTES: usize = 64;
/// Like [`SMALL_ENTRY_BYTES`], but for any other state: 64 bytes. An overflow state takes less, even where its vector has doubled.
pub(crate) const ENTRY_BYTES: usize = 100;
/// The maximum number of overflow states of one policy.
pub(crate) const MAX_OVERFLOW_STATES: usize = 4_096;
/// The heap bytes of a log with space for 32 runs.
const OVERFLOW_HEAP: usize = 512;
/// Low enough for a fixed table that is read without a lock.
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
                let reserved = division.overflow_states * (ENTRY_BYTES + division.overflow_heap);
                assert_eq!(division.own + reserved, bytes);
                assert!(reserved <= bytes / 2, "{division:?}");
            }
            assert!(Division::of(64 << 20, &strategy).overflow_states > 4_000);
        }
    }

    #[test]
    fn bytes_are_taken_up_to_the_maximum() {
        let bytes = BytesUsed::default();
        assert!(bytes.take(6, 10) && !bytes.take(5, 10) && bytes.take(4, 10));
        bytes.adjust(4, 7);
        bytes.adjust(9, 0);
        assert_eq!(bytes.get(), 4);
    }
}
