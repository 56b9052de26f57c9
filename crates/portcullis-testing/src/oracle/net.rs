//! The promises of the algorithms about charges and refunds together.

use std::ops::Range;

use portcullis_core::Timestamp;

use super::promise::{Peaks, Violation};
use super::{Kind, Model};

/// A change of the state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: tests of promises build it.
pub enum Event {
    /// A check was admitted.
    Admitted {
        /// When.
        at: Timestamp,
        /// How many units.
        units: u64,
    },
    /// A settlement charged units, whether or not they fitted.
    Forced {
        /// When.
        at: Timestamp,
        /// How many units.
        units: u64,
    },
    /// A refund, or a settlement to a lower cost, named units of an earlier charge.
    Refunded {
        /// When.
        at: Timestamp,
        /// The index of the charge among the events.
        charge: usize,
        /// How many units were named, including units that were replenished already.
        units: u64,
    },
}

impl Event {
    fn at(&self) -> u64 {
        let (Self::Admitted { at, .. } | Self::Forced { at, .. } | Self::Refunded { at, .. }) = self;
        at.as_micros()
    }
}

impl Model {
    /// Checks the events of one key against what the algorithm promises about every stretch of events, from one
    /// admission to a later one. The *net* of a stretch is the number of units admitted and not refunded in it.
    ///
    /// - rate-based algorithms: the net is at most the burst, plus what the rate yields in between, plus the units of
    ///   *earlier* charges that were refunded in between, each at most one time to full after its charge. The time to full is
    ///   the time in which the burst is replenished; with forced charges also the largest debt, by default another burst;
    /// - all windows and logs: as for [`Model::promise`], with the net instead of the admitted units.
    ///
    /// [`Peaks::ahead`] is computed from the net, less the refunds of earlier charges; [`Peaks::in_period`] is the
    /// largest net from any instant to one period later.
    ///
    /// ```
    /// use portcullis::{Quota, Timestamp};
    /// use portcullis_testing::oracle::{Event, Model};
    ///
    /// let model = Model::gcra(Quota::per_second(1));
    /// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
    /// let charge = |seconds| Event::Admitted { at: at(seconds), units: 1 };
    /// let refund = |charge| Event::Refunded { at: at(2), charge, units: 1 };
    /// assert!(model.net_promise(&[charge(0), charge(1), charge(2), refund(2), charge(2)]).is_ok());
    /// // A charge made two seconds ago is replenished, so its refund must not admit anything.
    /// let violation = model.net_promise(&[charge(0), charge(1), charge(2), refund(0), charge(2)]).unwrap_err();
    /// assert_eq!((violation.from, violation.charged), (at(1), 3));
    /// # Ok::<(), portcullis_testing::oracle::Violation>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a stretch exceeds its bound: the first one found, with its net.
    ///
    /// # Panics
    ///
    /// If a refund names an index beyond the events.
    pub fn net_promise(&self, events: &[Event]) -> Result<Peaks, Violation> {
        let (period, limit, capacity) = (self.period(), self.quota.limit(), self.capacity());
        let ahead = match self.kind {
            Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket => self.net_ahead_of_the_rate(events, 1)?,
            Kind::IntervalTokenBucket => self.net_ahead_of_the_rate(events, period)?,
            Kind::FixedWindow(_) | Kind::CalendarWindow(_) => self.net_in_a_window(events)?,
            Kind::SlidingWindow(slots) => {
                let slots = u64::from(slots);
                net_within(events, period / slots * (slots - 1), Some(limit))?
            }
            Kind::SlidingLog | Kind::InFlight => net_within(events, period - 1, Some(limit))?,
        };
        // For rate-based algorithms it follows from the bound on every stretch.
        let bound = (!self.is_rate_based()).then_some(capacity + limit);
        Ok(Peaks { ahead, in_period: net_within(events, period, bound)? })
    }

    /// The greatest net of any stretch, minus what the rate yields in it and minus the refunds of earlier charges that had
    /// not been replenished; in units, rounded down.
    fn net_ahead_of_the_rate(&self, events: &[Event], grain: u64) -> Result<u64, Violation> {
        let (limit, period) = (i128::from(self.quota.limit()), i128::from(self.period()));
        let burst = i128::from(self.capacity());
        let tick = |instant: u64| i128::from(instant - instant % grain);
        let is_forced = events.iter().any(|event| matches!(event, Event::Forced { .. }));
        let deepest = burst + if is_forced { i128::from(self.debt()) } else { 0 };
        let flowed_back = |charged: u64, now: u64| (tick(now) - tick(charged)) * limit >= deepest * period;
        let mut greatest = 0;
        for (start, end, net, earlier) in stretches(events, u64::MAX, flowed_back) {
            let yielded = (tick(events[end].at()) - tick(events[start].at())) * limit;
            let ahead = (net - earlier) * period - yielded;
            if ahead > burst * period {
                return Err(violation(events, start, end, net));
            }
            greatest = greatest.max(ahead / period);
        }
        Ok(u64::try_from(greatest).unwrap_or(0))
    }

    /// The greatest net of any window. A window whose charges are all refunded ends immediately: the next charge begins a
    /// new one.
    fn net_in_a_window(&self, events: &[Event]) -> Result<u64, Violation> {
        let (mut open, mut first, mut net, mut held, mut greatest) = (None::<Range<i128>>, 0, 0, 0, 0);
        for (index, event) in events.iter().enumerate() {
            let at = i128::from(event.at());
            open = open.filter(|open| at < open.end);
            if let Event::Refunded { charge, units, .. } = event {
                let units = if open.is_some() && *charge >= first { i128::from(*units) } else { 0 };
                held -= units;
                net -= if matches!(events[*charge], Event::Admitted { .. }) { units } else { 0 };
                open = open.filter(|_| held > 0);
                continue;
            }
            if open.is_none() {
                open = Some(self.window_at(event.at()));
                (first, net, held) = (index, 0, 0);
            }
            match event {
                Event::Admitted { units, .. } => {
                    (net, held) = (net + i128::from(*units), held + i128::from(*units));
                }
                Event::Forced { units, .. } => held += i128::from(*units),
                Event::Refunded { .. } => {}
            }
            if matches!(event, Event::Admitted { .. }) && net > i128::from(self.quota.limit()) {
                return Err(violation(events, first, index, net));
            }
            greatest = greatest.max(net);
        }
        Ok(u64::try_from(greatest).unwrap_or(0))
    }
}

/// The greatest net in any stretch of at most `span` microseconds, both ends included.
fn net_within(events: &[Event], span: u64, bound: Option<u64>) -> Result<u64, Violation> {
    let mut greatest = 0;
    for (start, end, net, _) in stretches(events, span, |_, _| true) {
        if bound.is_some_and(|bound| net > i128::from(bound)) {
            return Err(violation(events, start, end, net));
        }
        greatest = greatest.max(net);
    }
    Ok(u64::try_from(greatest).unwrap_or(0))
}

/// Returns, from each admission to each later one at most `span` away, the net and the refunds of earlier charges that had
/// not `flowed_back`, a function of the instants of the charge and the refund.
fn stretches(
    events: &[Event],
    span: u64,
    flowed_back: impl Fn(u64, u64) -> bool,
) -> Vec<(usize, usize, i128, i128)> {
    let is_admission = |event: &Event| matches!(event, Event::Admitted { units: 1.., .. });
    let mut found = Vec::new();
    for (start, _) in events.iter().enumerate().filter(|(_, event)| is_admission(event)) {
        let (mut net, mut earlier) = (0, 0);
        let within = |event: &&Event| event.at() - events[start].at() <= span;
        for (index, event) in events[start..].iter().take_while(within).enumerate() {
            match event {
                Event::Admitted { units, .. } => net += i128::from(*units),
                Event::Refunded { at, charge, units } if *charge < start => {
                    let gone = flowed_back(events[*charge].at(), at.as_micros());
                    earlier += if gone { 0 } else { i128::from(*units) };
                }
                Event::Refunded { charge, units, .. }
                    if matches!(events[*charge], Event::Admitted { .. }) =>
                {
                    net -= i128::from(*units);
                }
                Event::Forced { .. } | Event::Refunded { .. } => {}
            }
            if is_admission(event) {
                found.push((start, start + index, net, earlier));
            }
        }
    }
    found
}

fn violation(events: &[Event], start: usize, end: usize, net: i128) -> Violation {
    let instant = |index: usize| Timestamp::from_micros(events[index].at());
    Violation { from: instant(start), to: instant(end), charged: u64::try_from(net).unwrap_or(0) }
}
