//! What an algorithm promises about charges and refunds together.

use portcullis_core::{Anchor, Timestamp};

use super::promise::{Broken, Reached};
use super::windows::begin_of_window;
use super::{Kind, Model};

/// Something that happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A check was admitted.
    Admitted {
        /// When.
        at: Timestamp,
        /// How many units.
        units: u32,
    },
    /// A settlement has charged units that may not have fitted.
    Forced {
        /// When.
        at: Timestamp,
        /// How many units.
        units: u32,
    },
    /// A refund, or a settlement to a lower cost, has named units of an earlier charge.
    Refunded {
        /// When.
        at: Timestamp,
        /// The charge, by its index among the events.
        charge: usize,
        /// How many units were named, whether they had flowed back already or not.
        units: u32,
    },
}

impl Event {
    fn at(&self) -> u64 {
        let (Self::Admitted { at, .. } | Self::Forced { at, .. } | Self::Refunded { at, .. }) = self;
        at.as_micros()
    }
}

impl Model {
    /// Holds what happened to one key against what the algorithm promises about every stretch of events, from one
    /// admission to a later one. The *net* of a stretch is the number of units admitted and not refunded in it.
    ///
    /// - a meter: the net is at most the burst, what the rate yields in between, and the units of *earlier* charges that
    ///   were refunded in between, each at most one time to full after its charge. The time to full is the time in which
    ///   the burst flows back; with forced charges it is twice that;
    /// - windows, sliding slots and logs: as for [`Model::promise`], with the net in place of what was admitted.
    ///
    /// [`Reached::ahead`] is computed from the net, less the refunds of earlier charges; [`Reached::in_period`] is the
    /// largest net from any instant to one period later.
    ///
    /// ```
    /// use portcullis_core::{Quota, Timestamp};
    /// use portcullis_testing::oracle::{Event, Model};
    ///
    /// let model = Model::gcra(Quota::per_second(1));
    /// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
    /// let charge = |seconds| Event::Admitted { at: at(seconds), units: 1 };
    /// let refund = |charge| Event::Refunded { at: at(2), charge, units: 1 };
    /// assert!(model.net_promise(&[charge(0), charge(1), charge(2), refund(2), charge(2)]).is_ok());
    /// // A charge made two seconds ago has flowed back, so its refund must not admit anything.
    /// let broken = model.net_promise(&[charge(0), charge(1), charge(2), refund(0), charge(2)]).unwrap_err();
    /// assert_eq!((broken.from, broken.charged), (at(1), 3));
    /// # Ok::<(), portcullis_testing::oracle::Broken>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a stretch got more: the first one found, with its net.
    ///
    /// # Panics
    ///
    /// If a refund names an index beyond the events.
    pub fn net_promise(&self, events: &[Event]) -> Result<Reached, Broken> {
        let (period, limit, most) =
            (self.period(), u64::from(self.quota.limit()), u64::from(self.most_at_once()));
        let ahead = match self.kind {
            Kind::Tokens | Kind::Spacing | Kind::Queue => self.net_ahead_of_the_rate(events, 1)?,
            Kind::Refills => self.net_ahead_of_the_rate(events, period)?,
            Kind::Windows(anchor) => self.net_in_a_window(anchor, events)?,
            Kind::Slots(slots) => {
                let slots = u64::from(slots);
                net_within(events, period / slots * (slots - 1), Some(limit))?
            }
            Kind::Entries => net_within(events, period - 1, Some(limit))?,
        };
        // For a meter it follows from the bound on every stretch.
        let bound = match self.kind {
            Kind::Windows(_) | Kind::Slots(_) | Kind::Entries => Some(most + limit),
            Kind::Tokens | Kind::Refills | Kind::Spacing | Kind::Queue => None,
        };
        Ok(Reached { ahead, in_period: net_within(events, period, bound)? })
    }

    /// The greatest net of any stretch, less what the rate yields meanwhile and less the refunds of earlier charges that had
    /// not flowed back; in units, rounded down.
    fn net_ahead_of_the_rate(&self, events: &[Event], grain: u64) -> Result<u64, Broken> {
        let (limit, period) = (i128::from(self.quota.limit()), i128::from(self.period()));
        let burst = i128::from(self.most_at_once());
        let tick = |instant: u64| i128::from(instant - instant % grain);
        let bursts = if events.iter().any(|event| matches!(event, Event::Forced { .. })) { 2 } else { 1 };
        let flowed_back =
            |charged: u64, now: u64| (tick(now) - tick(charged)) * limit >= bursts * burst * period;
        let mut greatest = 0;
        for (start, end, net, earlier) in stretches(events, u64::MAX, flowed_back) {
            let yielded = (tick(events[end].at()) - tick(events[start].at())) * limit;
            let ahead = (net - earlier) * period - yielded;
            if ahead > burst * period {
                return Err(broken(events, start, end, net));
            }
            greatest = greatest.max(ahead / period);
        }
        Ok(u64::try_from(greatest).unwrap_or(0))
    }

    /// The greatest net of any window. A window in which nothing is charged any more ends at once: the next charge begins
    /// one of its own.
    fn net_in_a_window(&self, anchor: Anchor, events: &[Event]) -> Result<u64, Broken> {
        let (mut begin, mut first, mut net, mut held, mut greatest) = (None::<i128>, 0, 0, 0, 0);
        for (index, event) in events.iter().enumerate() {
            let at = i128::from(event.at());
            if begin.is_some_and(|begin| at >= begin + i128::from(self.period())) {
                begin = None;
            }
            if let Event::Refunded { charge, units, .. } = event {
                let units = if begin.is_some() && *charge >= first { i128::from(*units) } else { 0 };
                held -= units;
                net -= if matches!(events[*charge], Event::Admitted { .. }) { units } else { 0 };
                begin = begin.filter(|_| held > 0);
                continue;
            }
            if begin.is_none() {
                begin = Some(begin_of_window(anchor, self.period(), event.at()));
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
                return Err(broken(events, first, index, net));
            }
            greatest = greatest.max(net);
        }
        Ok(u64::try_from(greatest).unwrap_or(0))
    }
}

/// The greatest net in any stretch of at most `span` microseconds, both ends included.
fn net_within(events: &[Event], span: u64, bound: Option<u64>) -> Result<u64, Broken> {
    let mut greatest = 0;
    for (start, end, net, _) in stretches(events, span, |_, _| true) {
        if bound.is_some_and(|bound| net > i128::from(bound)) {
            return Err(broken(events, start, end, net));
        }
        greatest = greatest.max(net);
    }
    Ok(u64::try_from(greatest).unwrap_or(0))
}

/// From each admission to each later one that is no more than `span` away: the net, and the refunds of earlier charges
/// that had not `flowed_back`, which takes the instants of charge and refund.
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

fn broken(events: &[Event], start: usize, end: usize, net: i128) -> Broken {
    let instant = |index: usize| Timestamp::from_micros(events[index].at());
    Broken { from: instant(start), to: instant(end), charged: u64::try_from(net).unwrap_or(0) }
}
