//! The choices without purchases.

use super::decider::{Decider, Traffic, admit};
use super::leases::Leases;
use super::reports::Reports;
use super::{Choice, SECOND, Setup, Span};

pub(super) fn decider(choice: Choice, setup: &Setup, span: &Span) -> Box<dyn Decider> {
    match choice {
        Choice::Central => Box::new(Central::new(setup, span, 0)),
        Choice::CentralOrLocal => Box::new(Central::new(setup, span, setup.limit)),
        Choice::Shares => {
            Box::new(Shares { share: setup.limit / setup.regions as u64, used: vec![0; setup.regions] })
        }
        Choice::Leases { set_aside } => Box::new(Leases::new(setup, span, set_aside)),
        Choice::Counters => Box::new(Counters::new(setup, span)),
        Choice::Reports => Box::new(Reports::new(setup, span)),
    }
}

/// The home store decides in the order of the requests: that they arrive there later by half a trip is left out.
struct Central {
    span: Span,
    limit: u64,
    used: u64,
    /// What a region admits on its own while it is cut off.
    local: u64,
    local_used: Vec<u64>,
    traffic: Traffic,
}

impl Central {
    fn new(setup: &Setup, span: &Span, local: u64) -> Self {
        let local_used = vec![0; setup.regions];
        Self { span: *span, limit: setup.limit, used: 0, local, local_used, traffic: Traffic::default() }
    }
}

impl Decider for Central {
    fn decide(&mut self, at: u64, region: usize) -> bool {
        if self.span.is_cut(region, at) {
            return admit(&mut self.local_used[region], self.local);
        }
        self.traffic.calls += u64::from(region != 0);
        admit(&mut self.used, self.limit)
    }

    fn end_window(&mut self, _: u64) -> Traffic {
        self.used = 0;
        self.local_used.fill(0);
        std::mem::take(&mut self.traffic)
    }
}

struct Shares {
    share: u64,
    used: Vec<u64>,
}

impl Decider for Shares {
    fn decide(&mut self, _: u64, region: usize) -> bool {
        admit(&mut self.used[region], self.share)
    }

    fn end_window(&mut self, _: u64) -> Traffic {
        self.used.fill(0);
        Traffic::default()
    }
}

/// Each region sends what it has counted at each full second. A region uses what was sent once it has arrived from the farthest region.
struct Counters {
    span: Span,
    limit: u64,
    /// Microseconds until the counters of all other regions have arrived.
    delay: u64,
    counts: Vec<u64>,
    /// What the other regions had counted, as far as each region knows.
    others: Vec<u64>,
    second: u64,
    /// What was sent in this second, and in the one before.
    sent: Sent,
    before: Sent,
}

#[derive(Clone, Debug)]
struct Sent {
    counts: Vec<u64>,
    sum: u64,
}

impl Counters {
    fn new(setup: &Setup, span: &Span) -> Self {
        let none = vec![0; setup.regions];
        let longest = (0..setup.regions).map(|region| setup.round_trip(region)).max().unwrap_or_default();
        let sent = Sent { counts: none.clone(), sum: 0 };
        Self {
            span: *span,
            limit: setup.limit,
            delay: longest / 2,
            counts: none.clone(),
            others: none,
            second: 0,
            before: sent.clone(),
            sent,
        }
    }

    /// Sends the counters at the last full second.
    fn send(&mut self, second: u64) {
        if second == self.second {
            return;
        }
        std::mem::swap(&mut self.before, &mut self.sent);
        self.sent.counts.clone_from(&self.before.counts);
        for (region, (sent, count)) in self.sent.counts.iter_mut().zip(&self.counts).enumerate() {
            if !self.span.is_cut(region, second * SECOND) {
                *sent = *count;
            }
        }
        self.sent.sum = self.sent.counts.iter().sum();
        if second > self.second + 1 {
            self.before.clone_from(&self.sent);
        }
        self.second = second;
    }
}

impl Decider for Counters {
    fn decide(&mut self, at: u64, region: usize) -> bool {
        self.send(at / SECOND);
        if !self.span.is_cut(region, at) {
            let has_arrived = at % SECOND >= self.delay;
            let known = if has_arrived { &self.sent } else { &self.before };
            self.others[region] = known.sum - known.counts[region];
        }
        let others = self.others[region];
        admit(&mut self.counts[region], self.limit.saturating_sub(others))
    }

    fn end_window(&mut self, _: u64) -> Traffic {
        self.counts.fill(0);
        self.others.fill(0);
        for sent in [&mut self.sent, &mut self.before] {
            sent.counts.fill(0);
            sent.sum = 0;
        }
        // What the exchange costs does not depend on the requests of one key.
        Traffic::default()
    }
}
