//! The state of a simulation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use portcullis_core::lease::{MAX_LIFETIME, Sizing};

use super::{Costs, Load, Setup};

/// All times are in nanoseconds.
#[derive(Debug)]
pub(super) struct Simulation {
    costs: Costs,
    setup: Setup,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    lanes: HashMap<Lane, Queue>,
    nodes: Vec<Node>,
    leases: HashMap<(u32, u64), Lease>,
    calls: u64,
    latencies: Vec<u64>,
}

/// What shares calls: the decisions of an instance, in a cluster those of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lane {
    instance: u32,
    slot: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Reply(Lane),
    /// A decision may have waited for long enough.
    Overdue(Lane),
}

/// The calls of a lane, and the arrivals of the decisions that wait.
#[derive(Debug, Default)]
struct Queue {
    calls: usize,
    waiting: VecDeque<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    free_at: u64,
    /// In the second that counts.
    busy: u64,
}

#[derive(Debug)]
struct Lease {
    sizing: Sizing,
    units: u64,
    until: u64,
}

impl Simulation {
    pub(super) fn new(costs: Costs, setup: Setup) -> Self {
        Self {
            costs,
            setup,
            now: 0,
            events: BinaryHeap::new(),
            lanes: HashMap::new(),
            nodes: vec![Node::default(); usize::from(setup.nodes)],
            leases: HashMap::new(),
            calls: 0,
            latencies: Vec::new(),
        }
    }

    /// Runs the events up to an instant.
    pub(super) fn advance(&mut self, until: u64) {
        let next = |events: &BinaryHeap<Reverse<(u64, Event)>>| {
            events.peek().copied().filter(|Reverse((at, _))| *at <= until)
        };
        while let Some(Reverse((at, event))) = next(&self.events) {
            self.events.pop();
            self.now = at;
            match event {
                Event::Reply(lane) => {
                    let queue = self.lanes.entry(lane).or_default();
                    queue.calls = queue.calls.saturating_sub(1);
                    self.send_waiting(lane);
                }
                Event::Overdue(lane) => self.send_overdue(lane),
            }
        }
        self.now = until;
    }

    /// Makes a decision for a request that arrives now.
    pub(super) fn decide(&mut self, instance: u32, key: u64) {
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as u16;
        // Only a cluster has slots.
        let lane = Lane { instance, slot: if self.setup.nodes > 1 { slot } else { 0 } };
        if self.setup.leases && key <= LEASED_KEYS && self.spend(lane, key) {
            self.decided(self.now, self.now);
            return;
        }
        if !self.setup.combined {
            let reply = self.serve(lane, 1);
            self.decided(self.now, reply);
            return;
        }
        let queue = self.lanes.entry(lane).or_default();
        queue.waiting.push_back(self.now);
        if queue.calls < MAX_CALLS {
            self.send_waiting(lane);
        } else if queue.waiting.len() == 1 {
            self.events.push(Reverse((self.now + LONGEST_WAIT, Event::Overdue(lane))));
        }
    }

    pub(super) fn load(mut self) -> Load {
        self.latencies.sort_unstable();
        let p99 = self.latencies.get(self.latencies.len() * 99 / 100).copied().unwrap_or_default();
        let share = |busy: u64| busy as f64 / (END - BEGIN) as f64;
        let busy = self.nodes.iter().map(|node| node.busy);
        Load {
            busiest: share(busy.clone().max().unwrap_or_default()),
            mean: share(busy.sum()) / self.nodes.len() as f64,
            calls: self.calls as f64,
            p99: p99 as f64 / 1e6,
        }
    }

    /// Takes a unit from the lease of a key. If there is none, the next call charges units for one.
    fn spend(&mut self, lane: Lane, key: u64) -> bool {
        let now = Duration::from_nanos(self.now);
        let new = || Lease { sizing: Sizing::new(now), units: 0, until: 0 };
        let lease = self.leases.entry((lane.instance, key)).or_insert_with(new);
        lease.sizing.requested(1, now);
        if lease.units > 0 && self.now < lease.until {
            lease.units -= 1;
            return true;
        }
        let is_unused = lease.units > 0;
        lease.sizing.answered(PLENTY, now);
        lease.units = lease.sizing.size(1, PLENTY, now);
        lease.until = self.now + MAX_LIFETIME.as_nanos() as u64;
        if is_unused {
            // The refund of the rest, which is a call of its own.
            self.serve(lane, 1);
        }
        false
    }

    /// Sends the waiting decisions, as many as share a call.
    fn send_waiting(&mut self, lane: Lane) {
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        let count = queue.waiting.len().min(MAX_DECISIONS);
        if count == 0 {
            if queue.calls == 0 {
                self.lanes.remove(&lane);
            }
            return;
        }
        queue.calls += 1;
        let arrivals: Vec<u64> = queue.waiting.drain(..count).collect();
        let reply = self.serve(lane, count);
        self.events.push(Reverse((reply, Event::Reply(lane))));
        for arrival in arrivals {
            self.decided(arrival, reply);
        }
    }

    fn send_overdue(&mut self, lane: Lane) {
        let first = |lanes: &HashMap<Lane, Queue>| lanes.get(&lane)?.waiting.front().copied();
        while first(&self.lanes).is_some_and(|arrival| arrival + LONGEST_WAIT <= self.now) {
            self.send_waiting(lane);
        }
        if let Some(arrival) = first(&self.lanes) {
            self.events.push(Reverse((arrival + LONGEST_WAIT, Event::Overdue(lane))));
        }
    }

    /// Sends a call now. Returns when its reply arrives.
    fn serve(&mut self, lane: Lane, decisions: usize) -> u64 {
        let half_trip = (self.costs.round_trip * 500.0) as u64;
        let work = ((self.costs.call + self.costs.decision * decisions as f64) * 1e3) as u64;
        let index = usize::from(lane.slot % self.setup.nodes);
        let node = &mut self.nodes[index];
        node.free_at = node.free_at.max(self.now + half_trip) + work;
        if self.now >= BEGIN {
            node.busy += work;
            self.calls += 1;
        }
        node.free_at + half_trip
    }

    fn decided(&mut self, arrival: u64, reply: u64) {
        if arrival >= BEGIN {
            self.latencies.push(reply - arrival);
        }
    }
}

/// The second that counts.
const BEGIN: u64 = 1_000_000_000;
pub(super) const END: u64 = 2_000_000_000;
/// The rules of combined calls: two on their way, 128 decisions in each, and a sixteenth of the deadline of 50 ms.
const MAX_CALLS: usize = 2;
const MAX_DECISIONS: usize = 128;
const LONGEST_WAIT: u64 = 3_125_000;
/// The number of keys that an instance observes, which are those with most requests.
const LEASED_KEYS: u64 = 4_096;
/// What remains of a limit that is far away, and the most units that a policy lets a process lease.
const PLENTY: u64 = 1_000_000_000;
