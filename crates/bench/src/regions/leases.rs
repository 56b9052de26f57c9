//! Shares of regions, and purchases from the home store.

use std::time::Duration;

use portcullis_regions::purchase::{Demand, LONGEST_PAUSE, pause_after_denial, pause_after_failure};

use super::decider::{Decider, Traffic, admit};
use super::{Setup, Span};

/// One process in each region decides about the key, and buys as `RegionalStore` does.
pub(super) struct Leases {
    span: Span,
    /// In microseconds.
    window: u64,
    /// The home share, and what is charged of it.
    home: u64,
    charged: u64,
    share: u64,
    regions: Vec<Region>,
    /// Before this instant no purchase arrives anywhere.
    next: u64,
    traffic: Traffic,
}

#[derive(Debug)]
struct Region {
    round_trip: u64,
    /// Charged in the region, less what was credited.
    used: u64,
    /// Charged by the process since a quarter of the share was used, less what was or may be credited.
    held: u64,
    /// What the home store had left, and when its answer arrived.
    home: Option<(u64, u64)>,
    /// Until when nothing is bought.
    paused: u64,
    failures: u32,
    purchase: Option<Purchase>,
    has_asked: bool,
}

/// A purchase on its way.
#[derive(Clone, Copy, Debug)]
struct Purchase {
    units: u64,
    /// In which window the units that it replaces were charged.
    window: u64,
    /// When it arrives at the home store or, with an answer, in the region.
    at: u64,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    is_admitted: bool,
    remaining: u64,
}

impl Leases {
    pub(super) fn new(setup: &Setup, span: &Span, set_aside: u8) -> Self {
        let share = setup.limit * u64::from(set_aside) / 100 / setup.regions as u64;
        let region = |region| Region {
            round_trip: setup.round_trip(region),
            used: 0,
            held: 0,
            home: None,
            paused: 0,
            failures: 0,
            purchase: None,
            has_asked: false,
        };
        Self {
            span: *span,
            window: setup.window_micros(),
            home: setup.limit - share * setup.regions as u64,
            charged: 0,
            share,
            regions: (0..setup.regions).map(region).collect(),
            next: u64::MAX,
            traffic: Traffic::default(),
        }
    }

    /// Lets purchases arrive up to an instant, in their order.
    fn advance(&mut self, now: u64) {
        while self.next <= now {
            let at = self.next;
            for index in 0..self.regions.len() {
                if self.regions[index].purchase.is_some_and(|purchase| purchase.at == at) {
                    self.arrive(index);
                }
            }
            let instants = self.regions.iter().filter_map(|region| Some(region.purchase?.at));
            self.next = instants.min().unwrap_or(u64::MAX);
        }
    }

    /// A purchase arrives at the home store, or its answer in the region. What is under way when a cut begins is lost. The region does
    /// not know then whether the units were charged, and does not credit them.
    fn arrive(&mut self, index: usize) {
        let region = &mut self.regions[index];
        let Some(purchase) = region.purchase.take() else { return };
        if self.span.is_cut(index, purchase.at) {
            region.failed(purchase, self.window);
            return;
        }
        let is_late = purchase.at / self.window != purchase.window;
        let Some(answer) = purchase.answer else {
            let remaining = self.home - self.charged;
            let is_admitted = purchase.units <= remaining;
            let charged = if is_admitted { purchase.units } else { 0 };
            if is_late {
                // Units of another window than those that they would replace: they are refunded by a second call, here at once.
                self.traffic.calls += u64::from(index != 0 && is_admitted);
            } else {
                self.charged += charged;
            }
            let answer = Answer { is_admitted, remaining: remaining - charged };
            let at = purchase.at + region.round_trip / 2;
            region.purchase = Some(Purchase { at, answer: Some(answer), ..purchase });
            return;
        };
        if is_late {
            // A refund has no effect after the end of its window.
            region.failures = 0;
        } else {
            region.answered(purchase, answer, self.window);
        }
    }

    /// Buys for a region if it needs units, has no purchase on its way, and is connected.
    fn buy(&mut self, at: u64, index: usize) {
        let region = &mut self.regions[index];
        if region.purchase.is_some() || at < region.paused {
            return;
        }
        let units = region.demand(self.share, at).units();
        if units == 0 {
            return;
        }
        region.held -= units;
        let purchase = Purchase { units, window: at / self.window, at, answer: None };
        if self.span.is_cut(index, at) {
            region.failed(purchase, self.window);
            return;
        }
        let arrival = at + region.round_trip / 2;
        region.purchase = Some(Purchase { at: arrival, ..purchase });
        self.next = self.next.min(arrival);
        self.traffic.calls += u64::from(index != 0);
        self.traffic.buyers += u64::from(!region.has_asked);
        region.has_asked = true;
    }
}

impl Region {
    fn demand(&self, share: u64, at: u64) -> Demand {
        let longest = LONGEST_PAUSE.as_micros() as u64;
        let home = self.home.filter(|(remaining, since)| *remaining > 0 && at - since < longest);
        let home = home.map(|(remaining, _)| remaining);
        Demand { share, remaining: share - self.used, held: self.held, home }
    }

    fn answered(&mut self, purchase: Purchase, answer: Answer, window: u64) {
        self.failures = 0;
        self.home = Some((answer.remaining, purchase.at));
        if answer.is_admitted {
            self.used -= purchase.units;
            return;
        }
        self.held += purchase.units;
        if answer.remaining == 0 {
            let left = Duration::from_micros(window - purchase.at % window);
            self.pause(purchase.at, pause_after_denial(Some(left)));
        }
    }

    /// The home store has not answered.
    fn failed(&mut self, purchase: Purchase, window: u64) {
        if purchase.at / window == purchase.window {
            self.held += purchase.units;
        }
        self.home = None;
        self.failures = self.failures.saturating_add(1);
        self.pause(purchase.at, pause_after_failure(self.failures));
    }

    fn pause(&mut self, at: u64, length: Duration) {
        self.paused = at + length.as_micros() as u64;
    }
}

impl Decider for Leases {
    fn decide(&mut self, at: u64, index: usize) -> bool {
        self.advance(at);
        let region = &mut self.regions[index];
        let is_admitted = admit(&mut region.used, self.share);
        if is_admitted && region.demand(self.share, at).is_watched() {
            region.held += 1;
        }
        self.buy(at, index);
        is_admitted
    }

    fn end_window(&mut self, end: u64) -> Traffic {
        // What the home store has charged before the end counts there, even if the answer arrives later.
        self.advance(end - 1);
        self.charged = 0;
        for region in &mut self.regions {
            (region.used, region.held, region.has_asked) = (0, 0, false);
            // In a new window home has its whole part again.
            (region.home, region.paused) = (None, 0);
        }
        std::mem::take(&mut self.traffic)
    }
}
