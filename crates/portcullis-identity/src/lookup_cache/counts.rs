//! Counts what the caches of look-ups do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use portcullis_core::store::Figure;

/// Where the look-ups of a limiter are counted. Clones share the counts.
///
/// A [`CachedLookup`](crate::CachedLookup) or `QuotaLookup` counts in that of the limiter whose layer has it first.
/// An [`AsyncKeyExtractor`](crate::AsyncKeyExtractor) that wraps another one passes it on, by
/// [`count_in`](crate::AsyncKeyExtractor::count_in). The metrics of a limiter have the numbers.
#[derive(Clone, Default)]
pub struct LookupCounts(Arc<Counts>);

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    started: AtomicU64,
    joined: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    entries: AtomicU64,
}

impl LookupCounts {
    /// Counts a result that was taken from a cache.
    pub fn hit(&self) {
        self.0.hits.fetch_add(1, Relaxed);
    }

    pub(super) fn started(&self) {
        self.0.started.fetch_add(1, Relaxed);
    }

    pub(super) fn joined(&self) {
        self.0.joined.fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    /// Counts the wait of a request that has ended at its deadline, whether or not what it waits for has a cache.
    pub fn timed_out(&self) {
        self.0.timed_out.fetch_add(1, Relaxed);
    }

    pub(super) fn add_entries(&self, entries: usize) {
        self.0.entries.fetch_add(to_u64(entries), Relaxed);
    }

    /// Subtracts entries that were added before.
    pub(super) fn remove_entries(&self, entries: usize) {
        self.0.entries.fetch_sub(to_u64(entries), Relaxed);
    }

    /// Visits the numbers.
    pub fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let counter = |name, count: &AtomicU64, help| Figure::counter(name, count.load(Relaxed), help);
        let Counts { hits, started, joined, failed, timed_out, entries } = &*self.0;
        visit(counter("lookup_hits", hits, "Results of look-ups that were taken from a cache."));
        visit(counter("lookups", started, "Look-ups that caches have started."));
        visit(counter("lookups_joined", joined, "Requests that joined a look-up of another request."));
        visit(counter("lookups_failed", failed, "Look-ups of caches that ended by an error of the server."));
        visit(counter(
            "lookups_timed_out",
            timed_out,
            "Waits for look-ups that took longer than the deadline.",
        ));
        let entries = entries.load(Relaxed);
        visit(Figure::gauge("lookup_entries", entries, "Results that the caches of look-ups keep."));
    }
}

impl fmt::Debug for LookupCounts {
    /// Prints the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = f.debug_struct("LookupCounts");
        self.figures(&mut |figure| {
            printed.field(figure.name, &figure.value);
        });
        printed.finish()
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
