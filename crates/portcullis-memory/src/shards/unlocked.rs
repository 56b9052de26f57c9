//! What calls read of a shard without its lock.

use std::sync::Arc;

use portcullis_core::Timestamp;

use crate::sync::{AtomicU64, Ordering, fence};
use crate::table::{Location, halves};

/// What calls read of a shard before they lock it, or instead.
#[derive(Clone, Debug)]
pub(crate) struct Unlocked {
    pub(crate) location: Arc<Location>,
    pub(crate) denied: Arc<DeniedState>,
}

impl Unlocked {
    pub(crate) fn new() -> Self {
        Self { location: Arc::new(Location::new()), denied: Arc::default() }
    }
}

/// The state of a key that was denied, for its next denials: they change nothing, so they need no lock. A client that goes on after a denial
/// would otherwise take the lock from all threads.
///
/// It is written under the lock of the shard. A version that is the same before and after a reading, and even, says that what was read is
/// the state of the key at that moment: a change of the state [hides](Self::hide) it first.
///
/// Source: sequence locks, Boehm, "Can seqlocks get along with programming language memory models?" (2012).
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct DeniedState {
    /// Odd if no state is shown.
    version: AtomicU64,
    id: [AtomicU64; 2],
    /// The instant of the denial, in microseconds.
    at: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The numbers of which a small state consists.
pub(crate) type Words = [u64; WORDS];

const WORDS: usize = 4;

impl Default for DeniedState {
    fn default() -> Self {
        let zeros = || AtomicU64::new(0);
        Self {
            version: AtomicU64::new(1),
            id: [zeros(), zeros()],
            at: zeros(),
            words: [zeros(), zeros(), zeros(), zeros()],
        }
    }
}

impl DeniedState {
    /// Shows the state of an id that was denied at an instant. To be called under the lock of the shard.
    pub(crate) fn show(&self, id: u128, at: Timestamp, words: Words) {
        let hidden = self.hide();
        fence(Ordering::Release);
        for (shown, half) in self.id.iter().zip(halves(id)) {
            shown.store(half, Ordering::Relaxed);
        }
        self.at.store(at.as_micros(), Ordering::Relaxed);
        for (shown, word) in self.words.iter().zip(words) {
            shown.store(word, Ordering::Relaxed);
        }
        self.version.store(hidden.wrapping_add(1), Ordering::Release);
    }

    /// Hides the state that is shown. To be called under the lock of the shard. Returns the version, which is odd.
    pub(crate) fn hide(&self) -> u64 {
        let hidden = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(hidden, Ordering::Relaxed);
        hidden
    }

    /// The state of an id, if it is shown and its denial was not after `now`.
    #[inline]
    pub(crate) fn read(&self, id: u128, now: Timestamp) -> Option<Words> {
        let version = self.version.load(Ordering::Acquire);
        if version % 2 == 1 {
            return None;
        }
        let [low, high] = halves(id);
        let is_shown =
            self.id[0].load(Ordering::Relaxed) == low && self.id[1].load(Ordering::Relaxed) == high;
        if !is_shown || self.at.load(Ordering::Relaxed) > now.as_micros() {
            return None;
        }
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(words)
    }
}

/// Which state a shard shows, for the calls that have locked it.
#[derive(Debug)]
pub(crate) struct Denials {
    /// The lower half of the id whose state is shown.
    shown: Option<u64>,
    /// The lower half of the id that was denied last under the lock. Only the second denial in a row shows a state: most clients wait.
    last: u64,
    state: Arc<DeniedState>,
}

impl Denials {
    /// Without a denial.
    pub(crate) fn new(state: Arc<DeniedState>) -> Self {
        state.hide();
        Self { shown: None, last: 0, state }
    }

    /// Records that an id was denied at an instant, by a state of these words.
    #[cold]
    pub(crate) fn add(&mut self, id: u128, at: Timestamp, words: Words) {
        let [low, _] = halves(id);
        if self.last == low {
            self.shown = Some(low);
            self.state.show(id, at, words);
        }
        self.last = low;
    }

    /// Hides the state of an id before it changes.
    #[inline]
    pub(crate) fn end(&mut self, id: u128) {
        if self.shown == Some(halves(id)[0]) {
            self.shown = None;
            self.state.hide();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_denial_is_shown_until_change() {
        let state = Arc::<DeniedState>::default();
        let mut denials = Denials::new(Arc::clone(&state));
        let at = Timestamp::from_micros;
        let (one, other) = (7 << 64 | 5, 8 << 64 | 6);
        let read = |id, now| state.read(id, at(now));
        denials.add(one, at(10), [1, 2, 3, 4]);
        denials.add(other, at(10), [0; 4]);
        denials.add(one, at(11), [1, 2, 3, 4]);
        assert_eq!(read(one, 12), None);
        denials.add(one, at(12), [1, 2, 3, 4]);
        assert_eq!([read(one, 12), read(one, 11), read(other, 12)], [Some([1, 2, 3, 4]), None, None]);
        // Another upper half is another id.
        assert_eq!(read(9 << 64 | 5, 12), None);
        denials.end(other);
        assert_eq!(read(one, 12), Some([1, 2, 3, 4]));
        denials.end(one);
        assert_eq!(read(one, 12), None);
        denials.add(one, at(13), [4, 3, 2, 1]);
        assert_eq!(read(one, 13), Some([4, 3, 2, 1]));
        // Another policy gets the shard.
        let _ = Denials::new(Arc::clone(&state));
        assert_eq!(read(one, 13), None);
    }
}
