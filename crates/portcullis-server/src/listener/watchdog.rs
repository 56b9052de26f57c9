//! Decides when a connection has waited for too long.

use std::sync::Arc;
use std::time::Duration;

use super::ListenerOptions;
use super::activity::{Activity, Version};

/// The timeouts of one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    activity: Arc<Activity>,
    /// Whether it is that of a named proxy, whose clients share it over HTTP/2: one of them that takes nothing ends no requests of others.
    is_of_proxy: bool,
    started: u64,
    taken: u64,
    /// How long the head of a request has been arriving.
    head: Duration,
    /// How long no request was in progress.
    idle: Duration,
    /// How long the client has taken less than [`LEAST_TAKEN`] of what there was for it.
    stalled: Duration,
    /// How long the connection has been closing without a request in progress.
    closing: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    /// Ends the connection as at shutdown: the peer can see that no request of its own was lost.
    Close,
    /// Drops the connection.
    Cut(&'static str),
}

impl Watchdog {
    pub(super) fn new(activity: Arc<Activity>, is_of_proxy: bool) -> Self {
        let zero = Duration::ZERO;
        Self {
            activity,
            is_of_proxy,
            started: 0,
            taken: 0,
            head: zero,
            idle: zero,
            stalled: zero,
            closing: None,
        }
    }

    /// How often it looks.
    pub(super) fn interval(options: &ListenerOptions) -> Duration {
        let shortest = options.header_timeout.min(options.idle_timeout).min(options.stall_timeout);
        // No timer is set for the end of time.
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(3_600))
    }

    /// The connection closes from now on, for a reason of the listener.
    pub(super) fn closes(&mut self) {
        self.closing.get_or_insert_default();
    }

    /// What to do, given the time since the last look.
    pub(super) fn look(&mut self, passed: Duration, options: &ListenerOptions) -> Step {
        let (started, taken) = (self.activity.started(), self.activity.taken());
        let has_begun = started != self.started;
        self.started = started;
        if self.activity.is_busy() || has_begun {
            (self.head, self.idle) = Default::default();
            let is_shared = self.is_of_proxy && self.activity.version() == Version::Http2;
            let has_taken = taken - self.taken >= LEAST_TAKEN || !self.activity.awaits_client();
            if has_taken || has_begun || is_shared {
                (self.stalled, self.taken) = (Duration::ZERO, taken);
            } else {
                self.stalled += passed;
            }
            self.closing = self.closing.map(|_| Duration::ZERO);
            return if self.stalled < options.stall_timeout { Step::Keep } else { Step::Cut("stalled") };
        }
        self.stalled = Duration::ZERO;
        let is_in_head = match self.activity.version() {
            Version::Unknown => true,
            Version::Http1 => self.activity.has_unparsed(),
            Version::Http2 => false,
        };
        self.head = if is_in_head { self.head + passed } else { Duration::ZERO };
        self.idle += passed;
        if self.head >= options.header_timeout {
            return Step::Cut("slow head");
        }
        if let Some(closing) = &mut self.closing {
            *closing += passed;
            return if *closing < options.header_timeout { Step::Keep } else { Step::Cut("slow to close") };
        }
        // The first stream of HTTP/2 has the time of a head.
        let is_new = self.activity.version() == Version::Http2 && started == 0;
        let most =
            if is_new { options.header_timeout.min(options.idle_timeout) } else { options.idle_timeout };
        if self.idle < most {
            return Step::Keep;
        }
        self.closing = Some(Duration::ZERO);
        Step::Close
    }
}

/// The bytes that a client takes within the stall timeout: few, so that this is the pace of no client that reads.
const LEAST_TAKEN: u64 = 1_920;

#[cfg(test)]
mod tests;
