//! The algorithms that are compared, under one quota.

use std::time::Duration;

use portcullis_core::{
    FixedWindow, Gcra, LeakyBucket, Quota, QuotaError, Refill, SlidingLog, SlidingWindow, Strategy,
    TokenBucket,
};

/// An algorithm with its options, for any limit and period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Whether it represents its algorithm in the chart: the one without options.
    pub(crate) plain: bool,
    make: fn(Quota) -> Result<Strategy, QuotaError>,
}

impl Contender {
    pub(crate) fn strategy(&self, limit: u32, period: Duration) -> Strategy {
        Quota::new(limit.into(), period).and_then(self.make).expect("limits and periods here are in bounds")
    }
}

/// Each algorithm without options, followed by the options that change the results.
pub(crate) const CONTENDERS: &[Contender] = &[
    Contender {
        name: "token bucket",
        plain: true,
        make: |quota| TokenBucket::new(quota).map(Strategy::TokenBucket),
    },
    Contender {
        name: "token bucket, interval refill",
        plain: false,
        make: |quota| Ok(Strategy::TokenBucket(TokenBucket::new(quota)?.refilled(Refill::Interval))),
    },
    Contender { name: "GCRA, burst 1", plain: true, make: |quota| Gcra::new(quota).map(Strategy::Gcra) },
    Contender {
        name: "GCRA, burst a tenth",
        plain: false,
        make: |quota| Gcra::new(quota.try_burst(quota.limit() / 10)?).map(Strategy::Gcra),
    },
    Contender {
        name: "leaky bucket",
        plain: true,
        make: |quota| LeakyBucket::new(quota).map(Strategy::LeakyBucket),
    },
    Contender {
        name: "fixed window",
        plain: true,
        make: |quota| FixedWindow::new(quota).map(Strategy::FixedWindow),
    },
    Contender {
        name: "sliding window",
        plain: true,
        make: |quota| SlidingWindow::new(quota).map(Strategy::SlidingWindow),
    },
    Contender {
        name: "sliding window, 10 slots",
        plain: false,
        make: |quota| SlidingWindow::with_slots(quota, 10).map(Strategy::SlidingWindow),
    },
    Contender {
        name: "sliding log",
        plain: true,
        make: |quota| SlidingLog::new(quota).map(Strategy::SlidingLog),
    },
];

/// Returns the contender with this name.
pub(crate) fn named(name: &str) -> Contender {
    *CONTENDERS.iter().find(|contender| contender.name == name).expect("names are those above")
}

/// The default quota of the measurements: 100 per minute.
pub(crate) const LIMIT: u32 = 100;
pub(crate) const PERIOD: Duration = Duration::from_secs(60);
