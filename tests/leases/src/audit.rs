//! What was admitted of one key, compared with the promise of its policy.

use std::time::Duration;

use portcullis_core::SlidingWindow;
use portcullis_core::store::Run;

/// Tracks the period in which most is admitted beyond the promise, without remembering the past.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Audit {
    /// In any period at most the burst and the units replenished in it, plus the units in lease when it begins.
    Rate(
        /// All periods up to now. Units that were replenished are not admitted.
        Begun,
    ),
    /// In any window at most the limit, because a lease ends with its window.
    Window {
        /// The units that were admitted in the current window.
        admitted: i64,
    },
    /// In any `period * (slots - 1) / slots` at most the limit, and in any period twice the limit, plus the units in lease when it
    /// begins.
    Sliding {
        /// The periods that have begun at each tick, the latest last; none that began more than a window ago.
        begun: Vec<Begun>,
        /// The number of ticks in which at most the limit is admitted.
        exact: usize,
        /// The number of ticks in a window.
        window: usize,
    },
}

/// Periods that have begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Begun {
    /// The most, over these periods, of the units admitted up to now less those in lease at the begin.
    most: i64,
    /// The most of the units admitted up to now, over these periods.
    without_leases: i64,
}

impl Begun {
    /// No period has begun.
    const NONE: Self = Self { most: NEVER, without_leases: NEVER };

    fn begin(&mut self, leased: u64) {
        self.most = self.most.max(-units(leased));
        self.without_leases = self.without_leases.max(0);
    }

    fn add(&mut self, units: i64) {
        self.most += units;
        self.without_leases += units;
    }
}

impl Audit {
    pub(crate) fn rate() -> Self {
        Self::Rate(Begun { most: 0, without_leases: 0 })
    }

    pub(crate) fn sliding(window: &SlidingWindow, tick: Duration) -> Self {
        let ticks = |span: Duration| usize::try_from(span.as_micros() / tick.as_micros()).unwrap_or_default();
        let exact = window.slot() * (window.slots() - 1);
        Self::Sliding { begun: vec![Begun::NONE], exact: ticks(exact), window: ticks(window.period()) }
    }

    /// Whether no period has admitted more than a policy promises with this burst or limit.
    pub(crate) fn keeps(&self, promise: u64) -> bool {
        let promise = units(promise);
        match self {
            Self::Rate(begun) => begun.most <= promise,
            Self::Window { admitted } => *admitted <= promise,
            Self::Sliding { begun, exact, .. } => begun
                .iter()
                .rev()
                .enumerate()
                .all(|(age, begun)| begun.most <= if age <= *exact { promise } else { 2 * promise }),
        }
    }

    /// Whether leases were used in full. For a window, whether all of it was admitted.
    pub(crate) fn uses(&self, promise: u64) -> bool {
        let promise = units(promise);
        match self {
            Self::Rate(begun) => begun.without_leases > promise,
            Self::Window { admitted } => *admitted == promise,
            Self::Sliding { begun, exact, .. } => {
                begun.iter().rev().take(exact + 1).any(|begun| begun.without_leases > promise)
            }
        }
    }

    pub(crate) fn admit(&mut self) {
        self.add(1);
    }

    /// A charge that was admitted is refunded. `window` is the position of the current window.
    pub(crate) fn refund(&mut self, run: Run, window: u64) {
        if !matches!(self, Self::Window { .. }) || run.position.micros == window {
            self.add(-units(run.units));
        }
    }

    /// The state is removed, so that `limit` units are available again while `leased` are in lease.
    pub(crate) fn reset(&mut self, limit: u64, leased: u64) {
        match self {
            Self::Rate(_) | Self::Sliding { .. } => self.add(-units(limit)),
            Self::Window { .. } => self.add(-units(limit) - units(leased)),
        }
    }

    /// Units are replenished, or a window may begin.
    pub(crate) fn tick(&mut self, replenished: u64, begins_window: bool) {
        match self {
            Self::Rate(_) => self.add(-units(replenished)),
            Self::Window { admitted } if begins_window => *admitted = 0,
            Self::Window { .. } => {}
            Self::Sliding { begun, window, .. } => {
                begun.push(Begun::NONE);
                // At this age a period is as long as a window, with both ends.
                let old = begun.len().saturating_sub(*window + 1);
                begun.drain(..old);
            }
        }
    }

    /// Lets a period begin now, with `leased` units in lease.
    pub(crate) fn begin_period(&mut self, leased: u64) {
        match self {
            Self::Rate(begun) => begun.begin(leased),
            Self::Window { .. } => {}
            Self::Sliding { begun, .. } => {
                if let Some(last) = begun.last_mut() {
                    last.begin(leased);
                }
            }
        }
    }

    fn add(&mut self, units: i64) {
        match self {
            Self::Rate(begun) => begun.add(units),
            Self::Window { admitted } => *admitted += units,
            Self::Sliding { begun, .. } => begun.iter_mut().for_each(|begun| begun.add(units)),
        }
    }
}

/// Less than any number of units.
const NEVER: i64 = -1_000_000;

fn units(units: u64) -> i64 {
    i64::try_from(units).expect("the numbers of a model are small")
}
