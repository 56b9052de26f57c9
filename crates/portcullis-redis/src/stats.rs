//! What a store counts about its calls, over all connections that it has and had.

mod observers;

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use portcullis_core::StoreErrorKind;
use portcullis_core::store::{CallOutcome, StoreCall};
use tokio::time::Instant;

use self::observers::Observers;
use crate::lock::lock;

/// The counters of one store.
#[derive(Debug)]
pub(crate) struct StoreStats {
    created: Instant,
    /// Calls to the server that have ended.
    pub(crate) calls: AtomicU64,
    /// Decisions in those calls.
    pub(crate) decisions: AtomicU64,
    /// How often a breaker has opened.
    pub(crate) breaker_opens: AtomicU64,
    /// Connections in place of one that was lost.
    pub(crate) reconnects: AtomicU64,
    /// Scripts that were loaded on a server.
    pub(crate) scripts_loaded: AtomicU64,
    outages: Mutex<Outages>,
    lines: [Line; THREAD_GROUPS],
    pub(crate) observers: Observers,
}

/// Counters of one group of threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line {
    /// By kind, in the order of [`KINDS`].
    errors: [AtomicU64; KINDS.len()],
    lease_hits: AtomicU64,
}

/// The times in which connections have not answered, in microseconds since the creation of the store.
#[derive(Debug, Default)]
struct Outages {
    /// The length of those that have ended.
    ended: i128,
    /// The number of those that have not. Below zero for an instant, if the end of an outage is recorded before its beginning.
    running: i128,
    /// The sum of their beginnings.
    begun: i128,
    /// The sum that was reported last.
    reported: u64,
}

/// What connections do now, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// The connections, whether or not they are up.
    pub(crate) links: u64,
    /// The connections that are up.
    pub(crate) connected: u64,
    /// The connections whose breaker is open.
    pub(crate) open: u64,
    /// The connections whose breaker is open, and has let a probe through.
    pub(crate) probing: u64,
    /// Calls that have a permit.
    pub(crate) in_flight: u64,
    /// The most calls that may have a permit.
    pub(crate) in_flight_limit: u64,
    /// Calls that wait for a permit.
    pub(crate) waiting: u64,
    /// Decisions that wait for a combined call.
    pub(crate) uncombined: u64,
}

impl Default for StoreStats {
    fn default() -> Self {
        Self {
            created: Instant::now(),
            calls: AtomicU64::default(),
            decisions: AtomicU64::default(),
            breaker_opens: AtomicU64::default(),
            reconnects: AtomicU64::default(),
            scripts_loaded: AtomicU64::default(),
            outages: Mutex::default(),
            lines: Default::default(),
            observers: Observers::default(),
        }
    }
}

impl StoreStats {
    /// Records that a connection answers no calls since an instant.
    pub(crate) fn outage_began(&self, at: Instant) {
        let at = self.micros(at);
        let mut outages = lock(&self.outages);
        outages.running += 1;
        outages.begun += at;
    }

    /// Records that an outage that began at an instant has ended.
    pub(crate) fn outage_ended(&self, began: Instant) {
        let (began, now) = (self.micros(began), self.micros(Instant::now()));
        let mut outages = lock(&self.outages);
        outages.running -= 1;
        outages.begun -= began;
        outages.ended += now - began;
    }

    /// For how many microseconds connections have answered no calls, summed over the connections. Never decreases.
    pub(crate) fn degraded(&self) -> u64 {
        let mut outages = lock(&self.outages);
        let now = self.micros(Instant::now());
        let sum = outages.ended + outages.running * now - outages.begun;
        outages.reported = outages.reported.max(u64::try_from(sum).unwrap_or(0));
        outages.reported
    }

    /// Records the end of a call that was sent at an instant, with the name of its failure. One of no decisions of the store is not counted.
    pub(crate) fn call_ended(&self, sent: Instant, decisions: Option<u32>, result: Result<(), &'static str>) {
        let Some(decisions) = decisions else { return };
        self.calls.fetch_add(1, Relaxed);
        self.decisions.fetch_add(u64::from(decisions), Relaxed);
        if self.observers.any() {
            let outcome = result.map_or_else(CallOutcome::Failed, |()| CallOutcome::Answered);
            self.observers.on_call(&StoreCall::new(sent.elapsed(), decisions, outcome));
        }
    }

    /// Counts an error that is returned.
    pub(crate) fn count_error(&self, kind: StoreErrorKind) {
        if let Some(index) = KINDS.iter().position(|(known, _)| *known == kind) {
            self.line().errors[index].fetch_add(1, Relaxed);
        }
    }

    /// Counts a decision that is paid from leases.
    pub(crate) fn count_lease_hit(&self) {
        self.line().lease_hits.fetch_add(1, Relaxed);
    }

    /// The errors by kind: the name of the figure, and the number.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sum = |index: usize| self.lines.iter().map(|line| line.errors[index].load(Relaxed)).sum();
        KINDS.iter().enumerate().map(move |(index, (_, name))| (*name, sum(index)))
    }

    pub(crate) fn lease_hits(&self) -> u64 {
        self.lines.iter().map(|line| line.lease_hits.load(Relaxed)).sum()
    }

    /// The counters of the group of this thread.
    fn line(&self) -> &Line {
        &self.lines[thread_group()]
    }

    fn micros(&self, instant: Instant) -> i128 {
        i128::try_from(instant.saturating_duration_since(self.created).as_micros()).unwrap_or(i128::MAX)
    }
}

/// The group of this thread, below [`THREAD_GROUPS`].
pub(crate) fn thread_group() -> usize {
    thread_local!(static GROUP: Cell<usize> = const { Cell::new(usize::MAX) });
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let group = GROUP.get();
    if group < THREAD_GROUPS {
        return group;
    }
    let group = NEXT.fetch_add(1, Relaxed) % THREAD_GROUPS;
    GROUP.set(group);
    group
}

/// The kinds of errors, and the names of their figures.
const KINDS: [(StoreErrorKind, &str); 7] = [
    (StoreErrorKind::Unavailable, "errors_unavailable"),
    (StoreErrorKind::TimedOut, "errors_timed_out"),
    (StoreErrorKind::Overloaded, "errors_overloaded"),
    (StoreErrorKind::Overtaken, "errors_overtaken"),
    (StoreErrorKind::Forbidden, "errors_forbidden"),
    (StoreErrorKind::Unsupported, "errors_unsupported"),
    (StoreErrorKind::Failed, "errors_failed"),
];
/// The number of groups of threads.
pub(crate) const THREAD_GROUPS: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn outages_that_overlap_are_added_and_continue() {
        let (stats, second) = (StoreStats::default(), Duration::from_secs(1));
        advance(second).await;
        assert_eq!(stats.degraded(), 0);
        let first = Instant::now();
        stats.outage_began(first);
        advance(second).await;
        let other = Instant::now();
        stats.outage_began(other);
        advance(second).await;
        assert_eq!(stats.degraded(), 3_000_000, "running outages are included");
        stats.outage_ended(first);
        advance(second).await;
        assert_eq!(stats.degraded(), 4_000_000);
        stats.outage_ended(other);
        advance(second).await;
        assert_eq!(stats.degraded(), 4_000_000);
        // Recorded in the other order by two threads.
        let last = Instant::now();
        stats.outage_ended(last);
        stats.outage_began(last);
        advance(second).await;
        assert_eq!(stats.degraded(), 4_000_000);
    }

    #[test]
    fn errors_and_hits_of_all_threads_are_counted() {
        let stats = StoreStats::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * THREAD_GROUPS {
                scope.spawn(|| {
                    stats.count_error(StoreErrorKind::Overloaded);
                    stats.count_lease_hit();
                });
            }
        });
        let threads = 2 * THREAD_GROUPS as u64;
        let overloaded = |(name, count)| if name == "errors_overloaded" { threads } else { 0 } == count;
        assert!(stats.errors().all(overloaded) && stats.lease_hits() == threads, "{stats:?}");
        for (kind, name) in KINDS {
            assert_eq!(name.strip_prefix("errors_"), Some(kind.as_str()));
        }
    }
}
