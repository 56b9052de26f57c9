//! The permits held, the waiting calls, and the order of their keys.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::Woken;

/// The calls of one connection. It contains only keys with calls in flight or waiting.
#[derive(Debug, Default)]
pub(super) struct InFlightState {
    /// The maximum of `limit`.
    max: usize,
    /// The current number of permits, from 1 to `max`.
    limit: usize,
    max_waiting: usize,
    in_flight: usize,
    waiting: usize,
    keys: HashMap<Option<u128>, KeyCalls, RandomState>,
    /// The keys with a waiting call and room in the key's share, in the order in which they get permits. It is empty while a permit is free.
    ready: BTreeMap<u64, Option<u128>>,
    next_id: u64,
    /// A lower bound of the time from sending to the reply of the latest call.
    latency: Duration,
    /// Replies in time since the limit last grew.
    answers: usize,
    shrunk: Option<Instant>,
}

/// The calls of one key.
#[derive(Debug, Default)]
struct KeyCalls {
    in_flight: usize,
    waiting: BTreeMap<u64, Option<Waker>>,
    /// Its place among the keys that are ready.
    place: Option<u64>,
    /// How often a call of the key was denied since the key was added.
    denials: u64,
}

/// The result of [`InFlightState::enter`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Permit,
    /// With the number of denials of the key so far.
    Waiting {
        id: u64,
        denials: u64,
    },
    Full,
}

/// The result of [`InFlightState::poll`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// With how long recent replies took at least.
    Granted { latency: Duration },
    /// With the number of denials of the key so far.
    Waits { denials: u64 },
}

impl InFlightState {
    pub(super) fn new(permits: usize, max_waiting: usize) -> Self {
        Self { max: permits, limit: permits, max_waiting, ..Self::default() }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The calls with a permit, the permits, and the calls that wait.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.in_flight, self.limit, self.waiting]
    }

    pub(super) fn enter(&mut self, key: Option<u128>) -> Entered {
        if self.try_take(key) {
            return Entered::Permit;
        }
        let waiting_share = share(self.max_waiting, key);
        let calls = self.keys.entry(key).or_default();
        if self.waiting >= self.max_waiting || calls.waiting.len() >= waiting_share {
            self.update_key(key);
            return Entered::Full;
        }
        let id = self.next_id;
        self.next_id += 1;
        let denials = calls.denials;
        calls.waiting.insert(id, None);
        self.waiting += 1;
        self.update_key(key);
        Entered::Waiting { id, denials }
    }

    /// Takes a permit, if one is free and the key has not its whole share.
    pub(super) fn try_take(&mut self, key: Option<u128>) -> bool {
        if self.in_flight >= self.limit {
            return false;
        }
        let permits = share(self.limit, key);
        // A new key has room for a call, so that no key without calls is added.
        let calls = self.keys.entry(key).or_default();
        let is_free = calls.in_flight < permits;
        calls.in_flight += usize::from(is_free);
        self.in_flight += usize::from(is_free);
        is_free
    }

    pub(super) fn try_take_for_probe(&mut self) -> bool {
        let is_free = self.in_flight < self.max;
        if is_free {
            self.keys.entry(None).or_default().in_flight += 1;
            self.in_flight += 1;
        }
        is_free
    }

    /// Releases a permit.
    pub(super) fn release(&mut self, key: Option<u128>) -> Woken {
        self.in_flight -= 1;
        if let Some(calls) = self.keys.get_mut(&key) {
            calls.in_flight -= 1;
        }
        self.update_key(key);
        self.grant()
    }

    /// Removes a waiting call, or releases the permit that it was just granted.
    pub(super) fn leave(&mut self, key: Option<u128>, id: u64) -> Woken {
        let waited = self.keys.get_mut(&key).is_some_and(|calls| calls.waiting.remove(&id).is_some());
        if !waited {
            return self.release(key);
        }
        self.waiting -= 1;
        self.update_key(key);
        Woken::new()
    }

    /// Whether a call has been granted a permit. Otherwise the waker is called when it is, or when the key is denied.
    pub(super) fn poll(&mut self, key: Option<u128>, id: u64, waker: &Waker) -> Polled {
        let waiting = self.keys.get_mut(&key).and_then(|calls| {
            calls.waiting.get_mut(&id)?.get_or_insert_with(|| waker.clone()).clone_from(waker);
            Some(calls.denials)
        });
        match waiting {
            Some(denials) => Polled::Waits { denials },
            None => Polled::Granted { latency: self.latency },
        }
    }

    pub(super) fn recheck_denied(&mut self, key: u128) -> Woken {
        let Some(calls) = self.keys.get_mut(&Some(key)) else { return Woken::new() };
        calls.denials += 1;
        calls.waiting.values_mut().filter_map(Option::take).collect()
    }

    pub(super) fn recheck_all(&mut self) -> Woken {
        // So that a call without a reply does not have to look at each key.
        if self.waiting == 0 {
            return Woken::new();
        }
        let waiting = self.keys.values_mut().flat_map(|calls| calls.waiting.values_mut());
        waiting.filter_map(Option::take).collect()
    }

    pub(super) fn latency(&self) -> Duration {
        self.latency
    }

    pub(super) fn slow(&mut self, latency: Duration) {
        self.latency = self.latency.max(latency);
    }

    /// Counts replies in time for this number of permits, with the latency of their call.
    pub(super) fn grow(&mut self, latency: Duration, permits: usize) -> Woken {
        self.latency = latency;
        let mut woken = Woken::new();
        for _ in 0..permits {
            if self.limit == self.max {
                break;
            }
            self.answers += 1;
            if self.answers == ANSWERS_PER_PERMIT {
                woken.extend(self.raise());
            }
        }
        woken
    }

    /// Raises the limit by one.
    fn raise(&mut self) -> Woken {
        self.answers = 0;
        self.limit += 1;
        if self.limit.is_multiple_of(SHARES) {
            // The share of every key has grown by one.
            let keys: Vec<_> = self.keys.keys().copied().collect();
            for key in keys {
                self.update_key(key);
            }
        }
        self.grant()
    }

    /// Halves the limit, once for all calls that were sent under the same limit.
    pub(super) fn shrink(&mut self, sent: Instant) {
        if self.shrunk.is_none_or(|shrunk| shrunk < sent) {
            self.shrunk = Some(Instant::now());
            self.answers = 0;
            self.limit = (self.limit.min(self.in_flight) / 2).max(1);
        }
    }

    /// Grants free permits to the next keys.
    fn grant(&mut self) -> Woken {
        let mut woken = Woken::new();
        while self.in_flight < self.limit
            && let Some((_, key)) = self.ready.pop_first()
        {
            let permits = share(self.limit, key);
            let Some(calls) = self.keys.get_mut(&key) else { continue };
            calls.place = None;
            // A key that is alone is the next one as well.
            let grants = if self.ready.is_empty() { self.limit - self.in_flight } else { 1 };
            for _ in 0..grants.min(permits.saturating_sub(calls.in_flight)) {
                let Some((_, waker)) = calls.waiting.pop_first() else { break };
                calls.in_flight += 1;
                self.in_flight += 1;
                self.waiting -= 1;
                woken.extend(waker);
            }
            self.update_key(key);
        }
        woken
    }

    /// Adds a key to those that are ready or removes it, and removes a key without calls.
    fn update_key(&mut self, key: Option<u128>) {
        let permits = share(self.limit, key);
        let Entry::Occupied(mut known) = self.keys.entry(key) else { return };
        let calls = known.get_mut();
        let is_ready = !calls.waiting.is_empty() && calls.in_flight < permits;
        match calls.place {
            None if is_ready => {
                calls.place = Some(self.next_id);
                self.ready.insert(self.next_id, key);
                self.next_id += 1;
            }
            Some(place) if !is_ready => {
                calls.place = None;
                self.ready.remove(&place);
            }
            _ => {}
        }
        if calls.in_flight == 0 && calls.waiting.is_empty() {
            known.remove();
        }
    }
}

#[cfg(test)]
impl InFlightState {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ready.is_empty() && (self.in_flight, self.waiting) == (0, 0)
    }

    pub(super) fn assert_nothing_waits_in_vain(&self) {
        let is_ready = |key: &Option<u128>, calls: &KeyCalls| {
            !calls.waiting.is_empty() && calls.in_flight < share(self.limit, *key)
        };
        let waits = self.keys.iter().any(|(key, calls)| is_ready(key, calls));
        assert!(!waits || self.in_flight >= self.limit, "{self:?}");
    }
}

/// The share of `all` that the calls of one key may have.
fn share(all: usize, key: Option<u128>) -> usize {
    if key.is_some() { (all / SHARES).max(1) } else { all }
}

/// The number of keys that can fill a connection.
const SHARES: usize = 16;
/// The number of replies in time that raise the limit by one: slow, because every step too far makes calls late.
const ANSWERS_PER_PERMIT: usize = 64;
