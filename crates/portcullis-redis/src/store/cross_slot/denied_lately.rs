//! Which keys were denied lately.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use portcullis_core::Key;

/// A bounded note of the keys that were denied in the last [`LATELY`].
///
/// It only decides in which order slots are asked. So it may be wrong: a key that another one has pushed out of its place, or
/// that is taken for another one, costs time and never changes an answer.
#[derive(Debug)]
pub(crate) struct DeniedLately {
    start: Instant,
    /// One key per place: 40 bits of its fingerprint, and 24 bits of the tick of its latest denial. Made when the first key is
    /// noted, because a store of one server never needs it.
    places: OnceLock<Box<[AtomicU64]>>,
}

impl DeniedLately {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), places: OnceLock::new() }
    }

    pub(crate) fn note(&self, key: Key) {
        self.note_at(key, self.now());
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.contains_at(key, self.now())
    }

    /// Forgets a key, whose state was reset.
    pub(crate) fn forget(&self, key: Key) {
        if let Some(place) = self.place(key)
            && place.load(Relaxed) & !TICKS == tag(key)
        {
            place.store(0, Relaxed);
        }
    }

    fn note_at(&self, key: Key, tick: u64) {
        self.places.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        if let Some(place) = self.place(key) {
            place.store(tag(key) | tick & TICKS, Relaxed);
        }
    }

    fn contains_at(&self, key: Key, tick: u64) -> bool {
        let Some(noted) = self.place(key).map(|place| place.load(Relaxed)) else { return false };
        noted != 0 && noted & !TICKS == tag(key) && tick.wrapping_sub(noted) & TICKS <= LATELY_TICKS
    }

    fn place(&self, key: Key) -> Option<&AtomicU64> {
        let index = key.fingerprint() % u128::from(PLACES);
        self.places.get()?.get(usize::try_from(index).ok()?)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis() / TICK.as_millis()).unwrap_or_default()
    }
}

fn tag(key: Key) -> u64 {
    u64::try_from(key.fingerprint() >> 64).unwrap_or_default() & !TICKS
}

/// For how long a denial is noted.
pub(crate) const LATELY: Duration = Duration::from_secs(5);
/// 32 KiB.
const PLACES: u16 = 4_096;
const TICK: Duration = Duration::from_millis(125);
/// After 24 days the ticks begin again. A key that was denied that long ago and not since is then noted once more.
const TICKS: u64 = (1 << 24) - 1;
const LATELY_TICKS: u64 = LATELY.as_secs() * 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::key;

    #[test]
    fn a_key_is_noted_for_five_seconds_after_its_latest_denial() {
        let denied = DeniedLately::new();
        let [ada, grace] = ["ada", "grace"].map(|user| key(&[user]));
        assert!(!denied.contains_at(ada, 0));
        denied.note_at(ada, 100);
        assert!(denied.contains_at(ada, 100) && denied.contains_at(ada, 140));
        assert!(!denied.contains_at(ada, 141) && !denied.contains_at(grace, 100));
        denied.note_at(ada, 140);
        assert!(denied.contains_at(ada, 180) && !denied.contains_at(ada, 181));
        // Also where the ticks begin again.
        denied.note_at(ada, TICKS);
        assert!(denied.contains_at(ada, TICKS + 40) && !denied.contains_at(ada, TICKS + 41));
    }

    #[test]
    fn a_key_is_forgotten_and_no_other() {
        let denied = DeniedLately::new();
        let [ada, grace] = ["ada", "grace"].map(|user| key(&[user]));
        denied.forget(ada);
        denied.note(ada);
        denied.note(grace);
        denied.forget(ada);
        assert!(!denied.contains(ada) && denied.contains(grace));
    }

    #[test]
    fn a_flood_of_keys_takes_no_more_room() {
        let denied = DeniedLately::new();
        for user in 0..50_000 {
            denied.note_at(key(&[&user.to_string()]), 7);
        }
        let kept = (0..50_000).filter(|user| denied.contains_at(key(&[&user.to_string()]), 7)).count();
        assert!(kept <= usize::from(PLACES), "{kept}");
        assert!(kept > usize::from(PLACES) / 2, "{kept}");
    }
}
