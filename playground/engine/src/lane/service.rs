//! The service behind the limits: places for requests that run, a queue in front of them, and the shedding of load.

use std::collections::VecDeque;

use portcullis_engine::Class;
use portcullis_shed::internal::{AdaptiveLimit, End, Estimator, Sample, Tolerance, WHOLE, most, share};

use crate::scene::{Service, Shedding};

pub(super) struct Gate {
    workers: u32,
    busy: u32,
    /// Rows that wait for a worker.
    queue: VecDeque<usize>,
    shedding: Option<Shedder>,
    in_flight: u32,
}

struct Shedder {
    estimator: Estimator,
    tolerance: Tolerance,
    settings: Shedding,
    has_rejected: bool,
}

/// A request that is in flight, by which the limit moves.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    at: u64,
    waiting: u32,
    is_pressed: bool,
}

impl Gate {
    pub(super) fn new(service: Service, shed: Option<Shedding>) -> Self {
        let shedding = shed.map(|settings| Shedder {
            estimator: Estimator::new(AdaptiveLimit::new(settings.limit[0], settings.limit[1])),
            tolerance: Tolerance::new(f64::from(settings.tolerated_latency) / 1_000.0)
                .expect("it was checked"),
            settings,
            has_rejected: false,
        });
        Self { workers: service.workers, busy: 0, queue: VecDeque::new(), shedding, in_flight: 0 }
    }

    /// Counts a request. `None` if there is no room for its class.
    pub(super) fn enter(&mut self, at: u64, class: Class) -> Option<Entered> {
        let mut is_pressed = false;
        if let Some(shedder) = &mut self.shedding {
            let limit = shedder.estimator.limit();
            let Shedding { reserved_for_critical, reserved_from_background, .. } = shedder.settings;
            let room = most(limit, share(class, reserved_for_critical, WHOLE - reserved_from_background));
            if self.in_flight >= room && self.in_flight > 0 {
                shedder.has_rejected = true;
                return None;
            }
            is_pressed = (self.in_flight + 1).saturating_mul(2) >= limit;
        }
        self.in_flight += 1;
        Some(Entered { at, waiting: self.in_flight, is_pressed })
    }

    /// A request that was counted is rejected by its limits.
    pub(super) fn leave(&mut self) {
        self.in_flight -= 1;
    }

    /// Gives a row a worker. Returns whether it runs at once.
    pub(super) fn start(&mut self, row: usize) -> bool {
        let is_free = self.busy < self.workers;
        if is_free {
            self.busy += 1;
        } else {
            self.queue.push_back(row);
        }
        is_free
    }

    /// A request has ended. Returns the row that runs in its place.
    pub(super) fn end(&mut self, at: u64, entered: Entered) -> Option<usize> {
        self.in_flight -= 1;
        if let Some(shedder) = &mut self.shedding {
            let Entered { at: started, waiting, is_pressed } = entered;
            let sample =
                Sample { started: started * 1_000, now: at * 1_000, waiting, is_pressed, end: End::Served };
            if shedder.estimator.add(sample, shedder.tolerance) {
                let has_rejected = std::mem::take(&mut shedder.has_rejected);
                shedder.estimator.close(at * 1_000, has_rejected, shedder.tolerance);
            }
        }
        let next = self.queue.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }

    /// What is in flight, what of it waits for a worker, and the limit, or 0 without one.
    pub(super) fn figures(&self) -> [u64; 3] {
        let limit = self.shedding.as_ref().map_or(0, |shedder| shedder.estimator.limit());
        [u64::from(self.in_flight), self.queue.len() as u64, u64::from(limit)]
    }
}
