//! What was admitted of one key, compared with the promise of its policy.

use portcullis_core::store::Run;

/// Tracks the period in which most is admitted beyond the promise, without remembering the past.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Audit {
    /// In any period at most the burst and the units replenished in it, plus the units in lease when it begins.
    Rate {
        /// The most, over all periods up to now, of the units admitted less those replenished and those in lease at the begin.
        most: i64,
        /// The same without leases.
        without_leases: i64,
    },
    /// In any window at most the limit, because a lease ends with its window.
    Window {
        /// The units that were admitted in the current window.
        admitted: i64,
    },
}

impl Audit {
    pub(crate) fn admit(&mut self) {
        self.add(1);
    }

    /// A charge that was admitted is refunded. `window` is the position of the current window.
    pub(crate) fn refund(&mut self, run: Run, window: u64) {
        if matches!(self, Self::Rate { .. }) || run.position.micros == window {
            self.add(-units(run.units));
        }
    }

    /// The state is removed, so that `limit` units are available again while `leased` are in lease.
    pub(crate) fn reset(&mut self, limit: u64, leased: u64) {
        match self {
            Self::Rate { .. } => self.add(-units(limit)),
            Self::Window { .. } => self.add(-units(limit) - units(leased)),
        }
    }

    /// Units are replenished, or a window may begin.
    pub(crate) fn tick(&mut self, replenished: u64, begins_window: bool) {
        match self {
            Self::Rate { .. } => self.add(-units(replenished)),
            Self::Window { admitted } if begins_window => *admitted = 0,
            Self::Window { .. } => {}
        }
    }

    /// Lets a period begin now, with `leased` units in lease.
    pub(crate) fn begin_period(&mut self, leased: u64) {
        if let Self::Rate { most, without_leases } = self {
            *most = (*most).max(-units(leased));
            *without_leases = (*without_leases).max(0);
        }
    }

    fn add(&mut self, units: i64) {
        match self {
            Self::Rate { most, without_leases } => {
                *most += units;
                *without_leases += units;
            }
            Self::Window { admitted } => *admitted += units,
        }
    }
}

fn units(units: u64) -> i64 {
    i64::try_from(units).expect("the numbers of a model are small")
}
