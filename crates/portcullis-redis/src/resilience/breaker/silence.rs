//! Calls without a reply, of which only a probe can tell whether the server or this process is at fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Breaker, BreakerPermit, CLOSED, NoReply};

impl Breaker {
    /// What is known about a call that was sent at an instant and has no reply; `None` if only a probe can tell why.
    pub(crate) fn silence(&self, sent: Instant) -> Option<NoReply> {
        self.silence_since(self.micros(sent))
    }

    /// Records that no call was answered since an instant, so that a probe is sent.
    pub(crate) fn suspect(&self, sent: Instant) {
        let sent = self.micros(sent).max(1);
        if self.suspected.compare_exchange(0, sent, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.suspicion.notify_one();
        }
    }

    /// Waits for a suspicion.
    pub(crate) async fn suspected(&self) {
        self.suspicion.notified().await;
    }

    /// Admits the probe of a suspicion, unless it is settled.
    pub(crate) fn admit_suspicion_probe(self: &Arc<Self>) -> Option<BreakerPermit> {
        let suspected = self.suspected.load(Ordering::SeqCst);
        let permit = BreakerPermit { breaker: Arc::clone(self), sent: self.now(), probe: CLOSED, suspected };
        (suspected != 0 && self.is_closed()).then_some(permit)
    }

    /// The meaning of a call that was sent at an instant, if it has no reply after the wait beyond its deadline. `stalled` is that
    /// deadline, if this process stood still: then a reply to another call since proves that the server is healthy, however late.
    pub(crate) fn conclude(&self, sent: Instant, stalled: Option<Instant>) -> NoReply {
        let sent = self.micros(sent);
        self.conclude_since(sent, sent, stalled)
    }

    /// Whether a suspicion is being probed.
    pub(crate) fn is_suspected(&self) -> bool {
        self.suspected.load(Ordering::SeqCst) != 0
    }

    /// Whether the caller runs in the runtime of the connection.
    fn is_driven_here(&self) -> bool {
        Handle::try_current().is_ok_and(|current| Some(current.id()) == self.runtime)
    }

    fn silence_since(&self, sent: u64) -> Option<NoReply> {
        let is_later = |at: &AtomicU64| at.load(Ordering::SeqCst) > sent;
        if is_later(&self.answered) {
            Some(NoReply::Overload { all_late: false })
        } else if is_later(&self.answered_in_stall) {
            Some(NoReply::Overload { all_late: true })
        } else if !self.is_closed() {
            Some(NoReply::Outage)
        } else {
            let is_late = !self.is_suspected() && is_later(&self.replied);
            is_late.then_some(NoReply::Overload { all_late: true })
        }
    }

    /// `since` is when the outage began, if it is one.
    pub(super) fn conclude_since(&self, sent: u64, since: u64, stalled: Option<Instant>) -> NoReply {
        let has_replied = |end| self.replied.load(Ordering::SeqCst) > self.micros(end);
        match self.silence_since(sent) {
            Some(overload @ NoReply::Overload { .. }) => overload,
            None if stalled.is_some_and(has_replied) => NoReply::Overload { all_late: true },
            // The runtime that sends and reads may stand still. Its own probe finds out.
            None if !self.is_driven_here() => NoReply::Overload { all_late: false },
            None | Some(NoReply::Outage) => {
                self.open(sent);
                self.out(since);
                NoReply::Outage
            }
        }
    }
}
