//! Whether calls on a link are worth their wait.
//!
//! A call that got no reply within its deadline, while nobody else got one either since it was sent, opens the breaker:
//! from then on one call at a time goes through to probe, and everybody else fails at once. Any answer in time closes it.
//! Where others got a reply meanwhile, the server is there and too much is asked of it: that is [`Silence::Overload`], and
//! the breaker stays as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::jitter::around;

/// The breaker of one link, whatever connections it makes. It is atomics only.
#[derive(Debug)]
pub(super) struct Breaker {
    /// All times are microseconds since then.
    born: Instant,
    /// When the last answer came in time.
    answered: AtomicU64,
    /// When the last reply came, in time or not.
    replied: AtomicU64,
    /// Since when nobody was answered; 0 while somebody is.
    out_since: AtomicU64,
    /// 0 while closed; else a [`Word`].
    state: AtomicU64,
    /// Whether the last answer was that the server does not serve now, as a whole. A new connection is no better then.
    refusing: AtomicBool,
    /// Whether the last answer was that it does not serve now, for whatever reason. A new connection is no proof that it
    /// does, and an outage lasts through as many of them as there are.
    unserved: AtomicBool,
    /// Told when the breaker opens: those who wait for their turn.
    opened: Notify,
    /// Told when nobody is answered any more, and of every new connection: who has to find the right servers.
    alarm: Arc<Notify>,
}

/// An open breaker in a number: when the next probe is due, how often probing has failed, and whether a probe is under
/// way.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
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

/// What a call without a reply in time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nobody was answered since it was sent.
    Outage,
    /// Others were answered meanwhile, if only too late.
    Overload {
        /// Whether all of them were late, so that more calls are in flight than the server can answer in time.
        all_late: bool,
    },
}

/// The right to send one call. Dropped without a word it tells nothing, and frees the probe if it was one.
#[derive(Debug)]
pub(super) struct BreakerPermit {
    breaker: Arc<Breaker>,
    sent: u64,
    /// The state of the breaker while this call probes; 0 if it does not.
    probe: u64,
}

impl Breaker {
    pub(super) fn new(alarm: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            answered: AtomicU64::new(0),
            replied: AtomicU64::new(0),
            out_since: AtomicU64::new(1),
            state: AtomicU64::new(CLOSED),
            refusing: AtomicBool::new(false),
            unserved: AtomicBool::new(false),
            opened: Notify::new(),
            alarm,
        })
    }

    /// Whether a call would be refused now: the breaker is open, and no probe is due or one is under way.
    pub(super) fn rejects_now(&self) -> bool {
        match self.state.load(Ordering::SeqCst) {
            CLOSED => false,
            word => Word(word).is_probing() || self.now() < Word(word).due(),
        }
    }

    /// Whether every call may pass.
    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CLOSED
    }

    /// Lets a call through, as a probe if the breaker is open and one is due.
    pub(super) fn admit(self: &Arc<Self>) -> Option<BreakerPermit> {
        let state = self.state.load(Ordering::SeqCst);
        let (now, word) = (self.now(), Word(state));
        let mut ticket = BreakerPermit { breaker: Arc::clone(self), sent: now, probe: CLOSED };
        if state == CLOSED {
            return Some(ticket);
        }
        if word.is_probing() || now < word.due() || !self.change(state, word.probing().0) {
            return None;
        }
        ticket.probe = word.probing().0;
        Some(ticket)
    }

    /// Lets a probe through in place of a caller, if one is due and nobody was answered. A server that answers, and serves
    /// nobody, tells only callers when it does again.
    pub(super) fn admit_unasked(self: &Arc<Self>) -> Option<BreakerPermit> {
        let serves = !self.refusing.load(Ordering::SeqCst) && !self.unserved.load(Ordering::SeqCst);
        if serves && !self.is_closed() { self.admit().filter(|ticket| ticket.probe != CLOSED) } else { None }
    }

    /// Puts the next probe off, because there was no room to send it.
    pub(super) fn postpone(&self) {
        let state = self.state.load(Ordering::SeqCst);
        let word = Word(state);
        if state != CLOSED && !word.is_probing() && word.due() <= self.now() {
            self.change(state, Word::new(self.now(), word.step()).0);
        }
    }

    /// Notes a new connection, which was greeted. Returns whether calls may be expected to succeed.
    pub(super) fn connected(&self) -> bool {
        self.answered.store(self.now(), Ordering::SeqCst);
        if !self.refusing.load(Ordering::SeqCst) {
            self.state.store(CLOSED, Ordering::SeqCst);
        }
        let serves = !self.unserved.load(Ordering::SeqCst);
        if serves {
            self.out_since.store(0, Ordering::SeqCst);
        }
        self.alarm.notify_one();
        serves
    }

    /// Notes that the connection is gone.
    pub(super) fn disconnected(&self) {
        self.out(self.now());
    }

    /// For how long nobody has been answered; `None` while somebody is.
    pub(super) fn outage(&self) -> Option<Duration> {
        match self.out_since.load(Ordering::SeqCst) {
            0 => None,
            since => Some(Duration::from_micros(self.now().saturating_sub(since))),
        }
    }

    /// Whether an answer has come in time since an instant.
    pub(super) fn answered_since(&self, start: Instant) -> bool {
        let start = start.saturating_duration_since(self.born).as_micros();
        u128::from(self.answered.load(Ordering::SeqCst)) > start
    }

    /// Notes a reply that came after its deadline: it closes nothing, but the server is there.
    pub(super) fn replied(&self) {
        self.replied.fetch_max(self.now(), Ordering::SeqCst);
    }

    /// Waits until the breaker opens, if it is closed.
    pub(super) async fn opened(&self) {
        let opened = self.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        // It may have opened before there was anybody to hear of it.
        if self.is_closed() {
            opened.await;
        }
    }

    /// Opens, or stays open. What was answered after `sent` speaks against it.
    fn open(&self, sent: u64) {
        let opened = Word::new(self.now(), 0).0;
        if self.answered.load(Ordering::SeqCst) > sent || !self.change(CLOSED, opened) {
            return;
        }
        // An answer that came between the look and the change has found nothing to close.
        if self.answered.load(Ordering::SeqCst) > sent {
            self.change(opened, CLOSED);
            return;
        }
        self.opened.notify_waiters();
    }

    fn out(&self, since: u64) {
        let first = self.out_since.compare_exchange(0, since.max(1), Ordering::SeqCst, Ordering::SeqCst);
        if first.is_ok() {
            self.alarm.notify_one();
        }
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

impl BreakerPermit {
    pub(super) fn breaker(&self) -> Arc<Breaker> {
        Arc::clone(&self.breaker)
    }

    /// Notes an answer in time. Returns whether it ends a time in which the server refused everybody.
    pub(super) fn answered(self) -> bool {
        let breaker = &self.breaker;
        breaker.answered.store(breaker.now(), Ordering::SeqCst);
        if breaker.out_since.load(Ordering::SeqCst) != 0 {
            breaker.out_since.store(0, Ordering::SeqCst);
        }
        if !breaker.is_closed() {
            breaker.state.store(CLOSED, Ordering::SeqCst);
        }
        // Loads first: in good times no core takes the cache line from another.
        if breaker.refusing.load(Ordering::SeqCst) {
            breaker.refusing.store(false, Ordering::SeqCst);
        }
        breaker.unserved.load(Ordering::SeqCst) && breaker.unserved.swap(false, Ordering::SeqCst)
    }

    /// Notes the answer that the server serves nobody now. `lasting` says that a new connection will not change it, so
    /// that until somebody is served only probes go out.
    pub(super) fn refused(mut self, lasting: bool) {
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

    /// Notes that the deadline has passed without an answer.
    pub(super) fn silent(mut self) -> Silence {
        let breaker = Arc::clone(&self.breaker);
        let is_late = breaker.answered.load(Ordering::SeqCst) <= self.sent;
        if self.probe != CLOSED {
            self.failed();
        } else if is_late && breaker.is_closed() && breaker.replied.load(Ordering::SeqCst) > self.sent {
            return Silence::Overload { all_late: true };
        } else {
            breaker.open(self.sent);
        }
        if is_late {
            breaker.out(self.sent);
            return Silence::Outage;
        }
        Silence::Overload { all_late: false }
    }

    /// Closes the breaker without a claim that anybody was served.
    fn answered_only(&mut self) {
        self.breaker.answered.store(self.breaker.now(), Ordering::SeqCst);
        self.breaker.state.store(CLOSED, Ordering::SeqCst);
    }

    /// Lets more time pass before the next probe.
    fn failed(&mut self) {
        let probe = std::mem::replace(&mut self.probe, CLOSED);
        if probe != CLOSED {
            let next = Word::new(self.breaker.now(), Word(probe).step() + 1);
            self.breaker.change(probe, next.0);
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.probe != CLOSED {
            let next = Word::new(self.breaker.now(), Word(self.probe).step());
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
