//! The keys that were recently denied.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use portcullis_core::Key;

/// A bounded set of the keys that were denied in the last [`RECENT`].
/// It only decides in which order slots are queried, so it may be wrong: that costs time and never changes an answer.
#[derive(Debug)]
pub(crate) struct RecentlyDenied {
    start: Instant,
    /// One key per cell: 40 bits of its fingerprint, and 24 of the tick of its latest denial. Allocated when the first key is added.
    cells: OnceLock<Box<[AtomicU64]>>,
}

impl RecentlyDenied {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), cells: OnceLock::new() }
    }

    pub(crate) fn insert(&self, key: Key) {
        self.insert_at(key, self.now());
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.contains_at(key, self.now())
    }

    /// Removes a key whose state was reset.
    pub(crate) fn remove(&self, key: Key) {
        if let Some(cell) = self.cell(key)
            && cell.load(Relaxed) & !TICKS == tag(key)
        {
            cell.store(0, Relaxed);
        }
    }

    fn insert_at(&self, key: Key, tick: u64) {
        self.cells.get_or_init(|| (0..CELLS).map(|_| AtomicU64::new(0)).collect());
        if let Some(cell) = self.cell(key) {
            cell.store(tag(key) | tick & TICKS, Relaxed);
        }
    }

    fn contains_at(&self, key: Key, tick: u64) -> bool {
        let Some(noted) = self.cell(key).map(|cell| cell.load(Relaxed)) else { return false };
        noted != 0 && noted & !TICKS == tag(key) && tick.wrapping_sub(noted) & TICKS <= RECENT_TICKS
    }

    fn cell(&self, key: Key) -> Option<&AtomicU64> {
        let index = key.fingerprint() % u128::from(CELLS);
        self.cells.get()?.get(usize::try_from(index).ok()?)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis() / TICK.as_millis()).unwrap_or_default()
    }
}

fn tag(key: Key) -> u64 {
    u64::try_from(key.fingerprint() >> 64).unwrap_or_default() & !TICKS
}

/// How long a denied key is kept.
pub(crate) const RECENT: Duration = Duration::from_secs(5);
/// 32 KiB.
const CELLS: u16 = 4_096;
const TICK: Duration = Duration::from_millis(125);
/// The ticks wrap after 24 days. A key that was denied that long ago and not since then counts as recent once more.
const TICKS: u64 = (1 << 24) - 1;
const RECENT_TICKS: u64 = RECENT.as_secs() * 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::key;

    #[test]
    fn denied_key_is_recent_for_five_seconds() {
        let denied = RecentlyDenied::new();
        let [ada, grace] = ["ada", "grace"].map(|user| key(&[user]));
        assert!(!denied.contains_at(ada, 0));
        denied.insert_at(ada, 100);
        assert!(denied.contains_at(ada, 100) && denied.contains_at(ada, 140));
        assert!(!denied.contains_at(ada, 141) && !denied.contains_at(grace, 100));
        denied.insert_at(ada, 140);
        assert!(denied.contains_at(ada, 180) && !denied.contains_at(ada, 181));
        // A denial also ends in time where the ticks wrap.
        denied.insert_at(ada, TICKS);
        assert!(denied.contains_at(ada, TICKS + 40) && !denied.contains_at(ada, TICKS + 41));
    }

    #[test]
    fn removing_a_key_keeps_the_others() {
        let denied = RecentlyDenied::new();
        let [ada, grace] = ["ada", "grace"].map(|user| key(&[user]));
        denied.remove(ada);
        denied.insert(ada);
        denied.insert(grace);
        denied.remove(ada);
        assert!(!denied.contains(ada) && denied.contains(grace));
    }

    #[test]
    fn flood_of_keys_takes_no_more_memory() {
        let denied = RecentlyDenied::new();
        for user in 0..50_000 {
            denied.insert_at(key(&[&user.to_string()]), 7);
        }
        let kept = (0..50_000).filter(|user| denied.contains_at(key(&[&user.to_string()]), 7)).count();
        assert!(kept <= usize::from(CELLS), "{kept}");
        assert!(kept > usize::from(CELLS) / 2, "{kept}");
    }
}
