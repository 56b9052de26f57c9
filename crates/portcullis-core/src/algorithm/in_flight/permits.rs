//! The permits of a key, and how they expire.

use alloc::boxed::Box;

use smallvec::SmallVec;

use super::{END, FIRST};
use crate::charge::Run;

/// The permits of one key that are held.
///
/// A permit is identified by the epoch of the state, which is the instant at which the state was created, and by its serial number in
/// it. The state is kept until every permit that it ever had has expired, even if all of them are released: a later state has another
/// epoch, so that the receipt of an old permit never matches a new one.
///
/// ```
/// use portcullis_core::algorithm::{Permit, Permits};
///
/// let permits = Permits::new(7, 3, 90, [Permit { expires: 50, serial: 2 }, Permit { expires: 40, serial: 1 }]);
/// assert_eq!((permits.epoch(), permits.next(), permits.expires_at()), (7, 3, 90));
/// assert_eq!(permits.held()[0], Permit { expires: 40, serial: 1 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits(Box<Inner>);

/// Boxed, so that the states of other algorithms stay small.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inner {
    epoch: u64,
    next: u64,
    expires_at: u64,
    /// Sorted.
    held: SmallVec<[Permit; INLINE]>,
}

/// A permit that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive: an instant and a number. Permits are ordered by expiry, then by serial number.
pub struct Permit {
    /// The instant from which the permit no longer counts, in microseconds since the Unix epoch.
    pub expires: u64,
    /// The serial number of the permit in its state, at least 1.
    pub serial: u64,
}

/// The input of the figures of a decision about permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct PermitsView {
    /// The instant at which the state was created, in microseconds since the Unix epoch.
    pub epoch: u64,
    /// The serial number of the next permit.
    pub next: u64,
    /// The number of permits that are held.
    pub held: u64,
    /// The instant at which the last of them expires, in microseconds since the Unix epoch, after the repair of a clock step; 0 if none
    /// is held.
    pub latest: u64,
}

impl Permits {
    /// A state that was created at `epoch` and decides like none from `expires_at` on, both in microseconds since the Unix epoch, with
    /// permits in any order. `next` is the serial number of the next permit.
    ///
    /// `next` and `expires_at` are raised if a permit has a higher serial number or expires later.
    pub fn new(epoch: u64, next: u64, expires_at: u64, permits: impl IntoIterator<Item = Permit>) -> Self {
        let permits = permits.into_iter();
        // `collect` would allocate the next power of two.
        let mut held = SmallVec::with_capacity(permits.size_hint().0);
        held.extend(permits);
        held.sort_unstable();
        let above = held.iter().map(|permit: &Permit| permit.serial.saturating_add(1)).max();
        let latest = held.last().map(|permit| permit.expires);
        Self(Box::new(Inner {
            epoch,
            next: next.max(above.unwrap_or(FIRST)).clamp(FIRST, END),
            expires_at: expires_at.max(latest.unwrap_or(0)),
            held,
        }))
    }

    /// The instant at which the state was created, in microseconds since the Unix epoch.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// The serial number of the next permit, at least 1.
    pub fn next(&self) -> u64 {
        self.0.next
    }

    /// The instant from which the state decides like none, in microseconds since the Unix epoch. No permit expires later.
    pub fn expires_at(&self) -> u64 {
        self.0.expires_at
    }

    /// The permits, the one that expires first in front.
    pub fn held(&self) -> &[Permit] {
        &self.0.held
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        heap_bytes(if self.0.held.spilled() { self.0.held.capacity() } else { 0 })
    }

    /// The number of bytes that a state needs on the heap in addition for `most` permits.
    pub(super) fn growth(permits: Option<&Self>, most: u64) -> usize {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let needed = heap_bytes(if most > INLINE { most } else { 0 });
        needed.saturating_sub(permits.map_or(0, Self::heap_bytes))
    }

    /// A state without permits that was created at `now`, with space for `limit` of them.
    pub(super) fn begin(now: u64, limit: u64) -> Self {
        let held = SmallVec::with_capacity(usize::try_from(limit).unwrap_or(usize::MAX));
        Self(Box::new(Inner { epoch: now, next: FIRST, expires_at: 0, held }))
    }

    pub(super) fn view(&self, now: u64, horizon: u64) -> Option<PermitsView> {
        let Inner { epoch, next, expires_at, held } = &*self.0;
        if *expires_at <= now {
            return None;
        }
        let live = held.len().saturating_sub(first_live(held, now));
        let latest = held.last().filter(|_| live > 0).map_or(0, |permit| permit.expires.min(horizon));
        Some(PermitsView { epoch: *epoch, next: *next, held: live as u64, latest })
    }

    /// Drops the permits that have expired at `now`. No other one expires after `horizon` then.
    pub(super) fn advance(&mut self, now: u64, horizon: u64) {
        let Inner { expires_at, held, .. } = &mut *self.0;
        let expired = first_live(held, now);
        if expired > 0 {
            held.drain(..expired);
        }
        if *expires_at > horizon {
            *expires_at = horizon;
            held.iter_mut().for_each(|permit| permit.expires = permit.expires.min(horizon));
            held.sort_unstable();
        }
    }

    /// Adds permits that expire at `horizon`, which is not before any other one expires. The memory has space for `limit` permits at
    /// least.
    pub(super) fn take(&mut self, units: u64, horizon: u64, limit: u64) {
        let Inner { next, expires_at, held, .. } = &mut *self.0;
        let units = usize::try_from(units).unwrap_or(usize::MAX);
        let (len, limit) = (held.len(), usize::try_from(limit).unwrap_or(usize::MAX));
        let needed = len.saturating_add(units);
        if needed > held.capacity() {
            let capacity = if needed > limit { limit.saturating_mul(2).max(needed) } else { limit };
            held.reserve_exact(capacity.saturating_sub(len));
        }
        for _ in 0..units {
            held.push(Permit { expires: horizon, serial: *next });
            *next = next.saturating_add(1);
        }
        *expires_at = horizon.max(*expires_at);
    }

    /// Releases the permits of a run that are held at `now`. Returns whether there were any.
    pub(super) fn release(&mut self, run: Run, now: u64) -> bool {
        let before = self.0.held.len();
        if self.0.epoch == run.position.micros {
            self.0.held.retain(|permit| permit.expires <= now || !contains(run, permit.serial));
        }
        self.0.held.len() < before
    }

    /// Makes the permits of `runs` that are held at `now` expire at `horizon`, which is not before any other one expires. Returns
    /// their number.
    pub(super) fn renew(&mut self, runs: &[Run], now: u64, horizon: u64) -> u64 {
        let Inner { epoch, expires_at, held, .. } = &mut *self.0;
        let mut renewed: u64 = 0;
        for run in runs.iter().filter(|run| run.position.micros == *epoch) {
            for permit in held.iter_mut().filter(|permit| permit.expires > now) {
                if contains(*run, permit.serial) {
                    permit.expires = horizon;
                    renewed = renewed.saturating_add(1);
                }
            }
        }
        if renewed > 0 {
            *expires_at = horizon;
            held.sort_unstable();
        }
        renewed
    }
}

/// The index of the first permit that has not expired.
fn first_live(held: &[Permit], now: u64) -> usize {
    held.partition_point(|permit| permit.expires <= now)
}

/// Whether a permit belongs to a run: its position has the serial number of its last permit.
fn contains(run: Run, serial: u64) -> bool {
    let last = run.position.remainder;
    serial <= last && last.saturating_sub(serial) < run.units
}

const fn heap_bytes(spilled: usize) -> usize {
    size_of::<Inner>().saturating_add(spilled.saturating_mul(size_of::<Permit>()))
}

/// The highest limit whose permits need no memory beside the rest of the state.
const INLINE: usize = 4;
