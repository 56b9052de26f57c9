//! A hash table of small entries that can be walked a few entries at a time.

mod location;
mod prefetch;

use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use location::Location;

/// A map from ids to small values, with open addressing and linear probing.
///
/// A look-up of a known id touches one cache line, in most cases. The table grows by a quarter, so that an entry never takes
/// much more than its size; and it is an array, so that a cursor can walk it while it changes. It knows an instant before which
/// no entry expires, so that it is not walked in vain.
// In this order: what a look-up of a known id reads comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Table<V: Value> {
    /// At least a fifth of the buckets are vacant.
    buckets: Box<[Bucket<V>]>,
    /// The multiplier of the location.
    multiplier: u64,
    /// No entry expires before this instant, in microseconds since the epoch.
    earliest: u64,
    pass: Pass,
    len: usize,
    /// The maximum number of entries.
    capacity: usize,
    cursor: usize,
    location: Arc<Location>,
}

/// The walk of the cursor over all buckets, which finds a later instant before which no entry expires.
#[derive(Debug)]
#[repr(C)]
struct Pass {
    /// No entry in the visited buckets expires before this instant.
    earliest: u64,
    /// The number of buckets that the cursor has left behind, one after the other.
    visited: usize,
}

/// What a table keeps of a key.
pub(crate) trait Value: Default {
    /// Any type with the alignment that a bucket needs so that it lies in one cache line.
    type Align: Debug;
}

/// The alignment of buckets of 32 bytes: large allocations begin 16 bytes behind a page.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Align32;

/// Like [`Align32`], but for buckets of 64 bytes.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Align64;

#[derive(Debug)]
struct Bucket<V: Value> {
    /// Two halves, low and high: a `u128` has an alignment of 16 bytes. [`VACANT`] for a bucket without an entry.
    id: [u64; 2],
    value: V,
    _align: [V::Align; 0],
}

impl<V: Value> Table<V> {
    /// An empty table, which allocates nothing, for at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self::located(Arc::new(Location::new()), capacity)
    }

    /// Like [`new`](Self::new), but records where the entries are.
    pub(crate) fn located(location: Arc<Location>, capacity: usize) -> Self {
        let (buckets, multiplier) = (Box::default(), location.multiplier());
        location.record(&buckets);
        Self {
            buckets,
            multiplier,
            earliest: u64::MAX,
            pass: Pass::START,
            len: 0,
            capacity,
            cursor: 0,
            location,
        }
    }

    /// An empty table of other entries that takes the place of this one.
    pub(crate) fn replacement<W: Value>(&self, capacity: usize) -> Table<W> {
        Table::located(Arc::clone(&self.location), capacity)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The position of an entry. It is valid until the next insertion or removal.
    #[inline]
    pub(crate) fn find(&self, id: u128) -> Option<usize> {
        let id = halves_of_id(id);
        if self.buckets.is_empty() {
            return None;
        }
        let mut index = self.home(id);
        loop {
            let held = self.buckets[index].id;
            if held == id {
                return Some(index);
            }
            if held == VACANT {
                return None;
            }
            index = self.after(index);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u128) -> Option<&V> {
        self.find(id).map(|index| self.at(index))
    }

    /// The entry at a [position](Table::find).
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &V {
        &self.buckets[index].value
    }

    /// The entry of an id, for a change after which [`keep_until`](Table::keep_until) is called.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u128) -> Option<&mut V> {
        let index = self.find(id)?;
        Some(&mut self.buckets[index].value)
    }

    /// Replaces the entry at a [position](Table::find) by one that expires at an instant, in microseconds since the epoch.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, value: V, expires_at: u64) {
        self.buckets[index].value = value;
        self.keep_until(expires_at);
    }

    /// Adds the entry of an id that has none, which expires at an instant, in microseconds since the epoch.
    pub(crate) fn insert(&mut self, id: u128, value: V, expires_at: u64) {
        if (self.len + 1) * 5 > self.buckets.len() * 4 {
            self.grow();
        }
        self.place(halves_of_id(id), value);
        self.len += 1;
        self.keep_until(expires_at);
    }

    /// Records that an entry expires at an instant, in microseconds since the epoch.
    #[inline]
    pub(crate) fn keep_until(&mut self, expires_at: u64) {
        // A store of the same value would take the cache line away from the other threads.
        if expires_at < self.earliest {
            self.earliest = expires_at;
        }
        if expires_at < self.pass.earliest {
            self.pass.earliest = expires_at;
        }
    }

    /// Forgets when entries expire, because that has changed for all of them.
    #[cold]
    pub(crate) fn forget_expiry(&mut self) {
        self.earliest = 0;
        self.pass = Pass::START;
    }

    pub(crate) fn remove(&mut self, id: u128) -> Option<V> {
        let index = self.find(id)?;
        // Removal may move an entry into a bucket that the cursor has left behind.
        self.pass = Pass::START;
        Some(self.remove_at(index))
    }

    /// The entries that follow the first bucket for an id, at most `count`, with their ids.
    pub(crate) fn sample(&self, id: u128, count: usize) -> impl Iterator<Item = (u128, &V)> {
        let start = if self.buckets.is_empty() { 0 } else { self.home(halves_of_id(id)) };
        let (before, after) = self.buckets.split_at(start);
        let used = after.iter().chain(before).filter(|bucket| bucket.id != VACANT).take(count);
        used.map(|bucket| (whole(bucket.id), &bucket.value))
    }

    /// Inspects the next `count` entries, unless none can have expired by `now`, and passes the expired ones to `dropped`.
    #[inline]
    pub(crate) fn sweep(
        &mut self,
        now: u64,
        count: usize,
        expires_at: impl Fn(&V) -> u64,
        dropped: impl FnMut(V),
    ) {
        if now >= self.earliest {
            self.walk(now, count, expires_at, dropped);
        }
    }

    #[inline(never)]
    fn walk(&mut self, now: u64, count: usize, expires_at: impl Fn(&V) -> u64, mut dropped: impl FnMut(V)) {
        if self.pass.visited == 0 {
            // The pass inspects what has changed until now.
            self.pass = Pass::START;
        }
        let mut left = count.min(self.len);
        // In a table that is nearly empty, most buckets are vacant.
        let visits = count.saturating_mul(VISITS_PER_ENTRY);
        for _ in 0..visits {
            if left == 0 || self.has_ended_pass(now) {
                return;
            }
            self.cursor = if self.cursor < self.buckets.len() { self.cursor } else { 0 };
            let Bucket { id, value, .. } = &self.buckets[self.cursor];
            if *id != VACANT {
                left -= 1;
                let expires_at = expires_at(value);
                if expires_at <= now {
                    // Another entry may take its place and is inspected next.
                    dropped(self.remove_at(self.cursor));
                    continue;
                }
                self.pass.earliest = self.pass.earliest.min(expires_at);
            }
            self.cursor += 1;
            self.pass.visited += 1;
        }
    }

    /// Starts another pass if the cursor has left all buckets behind. Returns whether no entry has expired by `now`.
    fn has_ended_pass(&mut self, now: u64) -> bool {
        if self.pass.visited < self.buckets.len() {
            return false;
        }
        self.earliest = std::mem::replace(&mut self.pass, Pass::START).earliest;
        now < self.earliest
    }

    /// Closes the gap, so that every entry can be reached from its home without a vacant bucket between.
    fn remove_at(&mut self, index: usize) -> V {
        let removed = std::mem::take(&mut self.buckets[index]);
        self.len -= 1;
        let (mut gap, mut index) = (index, self.after(index));
        while self.buckets[index].id != VACANT {
            let home = self.home(self.buckets[index].id);
            if self.distance(home, index) >= self.distance(gap, index) {
                self.buckets.swap(gap, index);
                gap = index;
            }
            index = self.after(index);
        }
        removed.value
    }

    #[inline(never)]
    fn grow(&mut self) {
        // The entries change their buckets.
        self.pass = Pass::START;
        let len = self.buckets.len();
        let grown = len + (len / 4).max(LEAST_GROWTH);
        let (needed, full) = (with_vacancies(self.len + 1), with_vacancies(self.capacity));
        let buckets = grown.min(full).max(needed);
        let buckets = (0..buckets).map(|_| Bucket::default()).collect();
        for Bucket { id, value, .. } in std::mem::replace(&mut self.buckets, buckets) {
            if id != VACANT {
                self.place(id, value);
            }
        }
        self.location.record(&self.buckets);
    }

    fn place(&mut self, id: [u64; 2], value: V) {
        let mut index = self.home(id);
        while self.buckets[index].id != VACANT {
            index = self.after(index);
        }
        self.buckets[index] = Bucket { id, value, _align: [] };
    }

    /// The first bucket for an id.
    ///
    /// An id is a keyed fingerprint, and would be a hash itself. But a client that knows the key, such as that of the published
    /// secret, can find by trial any number of ids whose lower halves begin with the same twenty bits. So the lower half is
    /// multiplied by a random number: the first `n` bits of two different halves are then equal with a probability of at most
    /// 2^(1-n), whatever the client has chosen. A second product instead of a mask, because the number of buckets is not a power
    /// of two.
    ///
    /// Source: multiply-shift hashing, Dietzfelbinger, Hagerup, Katajainen and Penttonen, "A Reliable Randomized Algorithm for
    /// the Closest-Pair Problem" (1997).
    #[inline]
    fn home(&self, id: [u64; 2]) -> usize {
        scaled(id[0].wrapping_mul(self.multiplier), self.buckets.len())
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.buckets.len() { 0 } else { index + 1 }
    }

    /// The number of steps from one bucket to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }
}

impl Pass {
    const START: Self = Self { visited: 0, earliest: u64::MAX };
}

impl<V: Value> Default for Bucket<V> {
    fn default() -> Self {
        Self { id: VACANT, value: V::default(), _align: [] }
    }
}

/// The part of a size that a hash is of 2^64, less than the size.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than the size")]
fn scaled(hash: u64, size: usize) -> usize {
    ((u128::from(hash) * size as u128) >> 64) as usize
}

/// The number of buckets for this number of entries.
fn with_vacancies(entries: usize) -> usize {
    entries.saturating_add(entries.div_ceil(4)).max(LEAST_GROWTH)
}

/// The halves of the id of an entry. The one id that would read as vacant shares the entry of its neighbour.
#[inline]
fn halves_of_id(id: u128) -> [u64; 2] {
    halves(id.min(u128::MAX - 1))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
pub(crate) fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

#[inline]
pub(crate) fn whole([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

const VACANT: [u64; 2] = [u64::MAX; 2];
const LEAST_GROWTH: usize = 4;
/// With it, one call inspects a bounded number of buckets.
const VISITS_PER_ENTRY: usize = 8;

#[cfg(test)]
mod tests;
