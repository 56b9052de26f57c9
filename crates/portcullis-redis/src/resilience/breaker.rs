//! The circuit breaker of a link.
//!
//! A call without a reply within its deadline, while no other call was answered since it was sent, is a suspicion: the link sends a probe, and
//! calls go on. If the probe is not answered for one more [deadline](super::overtime), the breaker opens. From then on one call at a time is
//! sent as a probe, and all others fail at once. Any reply in time closes the breaker.

mod silence;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::jitter::around;
use crate::stats::StoreStats;

/// The breaker of one link, across its connections. What changes are atomics only.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// All times are microseconds since this instant.
    created: Instant,
    /// When the last reply in time came.
    answered: AtomicU64,
    /// When the last reply came whose call had passed its deadline because this process stood still.
    answered_in_stall: AtomicU64,
    /// When the last reply came, in time or not.
    replied: AtomicU64,
    /// Since when no call was answered; 0 while calls are answered.
    out_since: AtomicU64,
    /// 0 while closed; else an [`OpenState`].
    state: AtomicU64,
    /// When the first call was sent that raised the suspicion which is being probed; 0 if there is none.
    suspected: AtomicU64,
    /// Notified of a new suspicion.
    suspicion: Notify,
    /// Whether the last reply was that the server as a whole does not serve now. A new connection does not change that.
    refusing: AtomicBool,
    /// Whether the last reply was that the server does not serve now. An outage continues through new connections then.
    unserved: AtomicBool,
    /// Notified when calls are no longer answered, and of every new connection.
    refresh_signal: Arc<Notify>,
    stats: Arc<StoreStats>,
    /// The runtime of the connection.
    runtime: Option<Id>,
}

/// An open breaker in a number: when the next probe is due, how often probing has failed, and whether one is in flight.
#[derive(Clone, Copy)]
struct OpenState(u64);

impl OpenState {
    fn new(now: u64, step: u64) -> Self {
        let pause = around(interval(step));
        let due = now.saturating_add(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX)).max(1);
        Self(due << 5 | step.min(LAST_STEP) << 1)
    }

    fn due(self) -> u64 {
        self.0 >> 5
    }

    fn step(self) -> u64 {
        self.0 >> 1 & 0xf
    }

    fn is_probing(self) -> bool {
        self.0 & 1 == 1
    }

    fn probing(self) -> Self {
        Self(self.0 | 1)
    }
}

/// The meaning of a call without a reply in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// No call was answered since it was sent.
    Outage,
    /// Other calls were answered meanwhile, possibly too late.
    Overload {
        /// Whether all of those replies were late: more calls are in flight than the server can answer in time.
        all_late: bool,
    },
}

/// Permission to send one call. Dropping it records nothing, and allows another probe if it was one.
#[derive(Debug)]
pub(crate) struct BreakerPermit {
    breaker: Arc<Breaker>,
    sent: u64,
    /// The state of the breaker while this call is the probe of an open breaker; 0 if it is not.
    probe: u64,
    /// If this call probes a suspicion: when the call was sent that raised it. Otherwise 0.
    suspected: u64,
}

impl Breaker {
    /// Makes the breaker of a connection that runs in the current runtime. Until the first connection there is an outage.
    pub(crate) fn new(refresh_signal: Arc<Notify>, stats: Arc<StoreStats>) -> Arc<Self> {
        let breaker = Self {
            created: Instant::now(),
            answered: AtomicU64::new(0),
            answered_in_stall: AtomicU64::new(0),
            replied: AtomicU64::new(0),
            out_since: AtomicU64::new(0),
            state: AtomicU64::new(CLOSED),
            suspected: AtomicU64::new(0),
            suspicion: Notify::new(),
            refusing: AtomicBool::new(false),
            unserved: AtomicBool::new(false),
            refresh_signal,
            stats,
            runtime: Handle::try_current().ok().map(|runtime| runtime.id()),
        };
        breaker.begin_outage(1);
        Arc::new(breaker)
    }

    /// Whether a call would be rejected now: the breaker is open, and no probe is due or one is in flight.
    pub(crate) fn rejects_now(&self) -> bool {
        match self.state.load(Ordering::SeqCst) {
            CLOSED => false,
            open_state => OpenState(open_state).is_probing() || self.now() < OpenState(open_state).due(),
        }
    }

    /// What all connections count.
    pub(crate) fn stats(&self) -> &StoreStats {
        &self.stats
    }

    /// Whether the breaker is open, and whether a probe is in flight then.
    pub(crate) fn open_and_probing(&self) -> [bool; 2] {
        let state = self.state.load(Ordering::SeqCst);
        [state != CLOSED, state != CLOSED && OpenState(state).is_probing()]
    }

    /// Whether all calls may be sent.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CLOSED
    }

    /// Admits a call, as a probe if the breaker is open and a probe is due.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<BreakerPermit> {
        let state = self.state.load(Ordering::SeqCst);
        let (now, open_state) = (self.now(), OpenState(state));
        let mut permit = BreakerPermit { breaker: Arc::clone(self), sent: now, probe: CLOSED, suspected: 0 };
        if state == CLOSED {
            return Some(permit);
        }
        if open_state.is_probing() || now < open_state.due() || !self.change(state, open_state.probing().0) {
            return None;
        }
        permit.probe = open_state.probing().0;
        Some(permit)
    }

    /// Admits a background probe, if one is due. If the server replies but does not serve, only real calls find out when it does.
    pub(crate) fn admit_background_probe(self: &Arc<Self>) -> Option<BreakerPermit> {
        let serves = !self.refusing.load(Ordering::SeqCst) && !self.unserved.load(Ordering::SeqCst);
        if serves && !self.is_closed() { self.admit().filter(|permit| permit.probe != CLOSED) } else { None }
    }

    /// Postpones the next probe, because there was no permit to send it.
    pub(crate) fn postpone(&self) {
        let state = self.state.load(Ordering::SeqCst);
        let open_state = OpenState(state);
        if state != CLOSED && !open_state.is_probing() && open_state.due() <= self.now() {
            self.change(state, OpenState::new(self.now(), open_state.step()).0);
        }
    }

    /// Records a new connection. Returns whether calls may be expected to succeed.
    pub(crate) fn connected(&self) -> bool {
        self.answered.store(self.now(), Ordering::SeqCst);
        if !self.refusing.load(Ordering::SeqCst) {
            self.state.store(CLOSED, Ordering::SeqCst);
        }
        let serves = !self.unserved.load(Ordering::SeqCst);
        if serves {
            self.end_outage();
        }
        self.refresh_signal.notify_one();
        serves
    }

    /// Records the loss of the connection.
    pub(crate) fn disconnected(&self) {
        self.out(self.now());
    }

    /// For how long no call has been answered; `None` while calls are answered.
    pub(crate) fn outage(&self) -> Option<Duration> {
        match self.out_since.load(Ordering::SeqCst) {
            0 => None,
            since => Some(Duration::from_micros(self.now().saturating_sub(since))),
        }
    }

    /// Whether a reply has come since an instant that was in time, or late by this process alone.
    pub(crate) fn answered_since(&self, start: Instant) -> bool {
        self.is_answered_after(self.micros(start))
    }

    fn is_answered_after(&self, sent: u64) -> bool {
        [&self.answered, &self.answered_in_stall].iter().any(|at| at.load(Ordering::SeqCst) > sent)
    }

    /// Whether a reply has come since an instant, in time or not.
    pub(crate) fn replied_since(&self, start: Instant) -> bool {
        self.answered_since(start) || self.replied.load(Ordering::SeqCst) > self.micros(start)
    }

    /// Records a reply after its deadline: it does not close the breaker, but proves that the server is reachable.
    pub(crate) fn replied(&self) {
        self.replied.fetch_max(self.now(), Ordering::SeqCst);
    }

    /// Opens the breaker if it is closed and no call was answered after `sent`.
    fn open(&self, sent: u64) {
        let opened = OpenState::new(self.now(), 0).0;
        if self.is_answered_after(sent) || !self.change(CLOSED, opened) {
            return;
        }
        // A reply that came between the check and the change found a closed breaker.
        if self.is_answered_after(sent) {
            self.change(opened, CLOSED);
            return;
        }
        self.stats.breaker_opens.fetch_add(1, Ordering::Relaxed);
    }

    fn out(&self, since: u64) {
        if self.begin_outage(since.max(1)) {
            self.refresh_signal.notify_one();
        }
    }

    /// Begins an outage, unless there is one. Returns whether it did.
    fn begin_outage(&self, since: u64) -> bool {
        let first = self.out_since.compare_exchange(0, since, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if first {
            self.stats.outage_began(self.instant(since));
        }
        first
    }

    fn end_outage(&self) {
        let since = self.out_since.swap(0, Ordering::SeqCst);
        if since != 0 {
            self.stats.outage_ended(self.instant(since));
        }
    }

    /// The instant of a number of microseconds.
    fn instant(&self, micros: u64) -> Instant {
        self.created + Duration::from_micros(micros)
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn now(&self) -> u64 {
        self.micros(Instant::now()).max(1)
    }

    fn micros(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.created);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Breaker {
    /// A connection that is no longer needed is in no outage.
    fn drop(&mut self) {
        self.end_outage();
    }
}

impl BreakerPermit {
    /// Records a reply in time. Returns whether it ends a period in which the server refused all calls.
    pub(crate) fn answered(self) -> bool {
        self.record_answer(&self.breaker.answered)
    }

    /// Like [`answered`](Self::answered), but for a reply that is late by this process alone: it shows that the server serves.
    pub(crate) fn answered_in_stall(self) -> bool {
        self.record_answer(&self.breaker.answered_in_stall)
    }

    fn record_answer(&self, last: &AtomicU64) -> bool {
        let breaker = &self.breaker;
        last.store(breaker.now(), Ordering::SeqCst);
        if breaker.out_since.load(Ordering::SeqCst) != 0 {
            breaker.end_outage();
        }
        if !breaker.is_closed() {
            breaker.state.store(CLOSED, Ordering::SeqCst);
        }
        // Loads first: in normal operation no core takes the cache line from another.
        if breaker.refusing.load(Ordering::SeqCst) {
            breaker.refusing.store(false, Ordering::SeqCst);
        }
        breaker.unserved.load(Ordering::SeqCst) && breaker.unserved.swap(false, Ordering::SeqCst)
    }

    /// Records the reply that the server serves no calls now. If that is `lasting`, only probes are sent until a call is served.
    pub(crate) fn refused(mut self, lasting: bool) {
        let breaker = Arc::clone(&self.breaker);
        breaker.unserved.store(true, Ordering::SeqCst);
        breaker.out(breaker.now());
        if !lasting {
            self.answered_only();
            return;
        }
        breaker.refusing.store(true, Ordering::SeqCst);
        self.failed();
        if breaker.is_closed() {
            breaker.open(u64::MAX);
        }
    }

    /// Whether it probes a server whose breaker is open.
    pub(crate) fn is_probe(&self) -> bool {
        self.probe != CLOSED
    }

    /// Whether it probes a suspicion.
    pub(crate) fn settles_suspicion(&self) -> bool {
        self.suspected != 0
    }

    /// Records that there is no reply after the wait beyond the deadline, as [`Breaker::conclude`].
    pub(crate) fn timed_out(mut self, stalled: Option<Instant>) -> NoReply {
        let breaker = Arc::clone(&self.breaker);
        self.failed();
        let since = if self.suspected == 0 { self.sent } else { self.suspected };
        breaker.conclude_since(self.sent, since, stalled)
    }

    /// Closes the breaker without recording a served call.
    fn answered_only(&mut self) {
        self.breaker.answered.store(self.breaker.now(), Ordering::SeqCst);
        self.breaker.state.store(CLOSED, Ordering::SeqCst);
    }

    /// Increases the pause before the next probe.
    fn failed(&mut self) {
        let probe = std::mem::replace(&mut self.probe, CLOSED);
        if probe != CLOSED {
            let next = OpenState::new(self.breaker.now(), OpenState(probe).step() + 1);
            self.breaker.change(probe, next.0);
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.suspected != 0 {
            self.breaker.suspected.store(0, Ordering::SeqCst);
        }
        if self.probe != CLOSED {
            let next = OpenState::new(self.breaker.now(), OpenState(self.probe).step());
            self.breaker.change(self.probe, next.0);
        }
    }
}

/// 10 ms, doubled with every failure, up to half a second.
fn interval(step: u64) -> Duration {
    let doubled = Duration::from_millis(10 << step.min(LAST_STEP));
    doubled.min(Duration::from_millis(500))
}

const CLOSED: u64 = 0;
const LAST_STEP: u64 = 6;

#[cfg(test)]
mod tests;
