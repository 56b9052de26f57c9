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
    make: Make,
}

impl Contender {
    pub(crate) fn strategy(&self, limit: u32, period: Duration) -> Strategy {
        Quota::new(limit.into(), period, None)
            .and_then(self.make)
            .expect("limits and periods here are in bounds")
    }
}

/// How a strategy is made from a quota.
type Make = fn(Quota) -> Result<Strategy, QuotaError>;

/// An algorithm without options.
const fn plain(name: &'static str, make: Make) -> Contender {
    Contender { name, plain: true, make }
}

/// An algorithm with an option.
const fn with_option(name: &'static str, make: Make) -> Contender {
    Contender { name, plain: false, make }
}

/// Each algorithm without options, followed by the options that change the results.
pub(crate) const CONTENDERS: &[Contender] = &[
    plain("token bucket", |quota| TokenBucket::new(quota).map(Strategy::TokenBucket)),
    with_option("token bucket, interval refill", |quota| {
        Ok(Strategy::TokenBucket(TokenBucket::new(quota)?.refilled(Refill::Interval)))
    }),
    plain("GCRA, burst 1", |quota| Gcra::new(quota).map(Strategy::Gcra)),
    with_option("GCRA, burst a tenth", |quota| {
        Gcra::new(quota.burst(quota.limit() / 10)).map(Strategy::Gcra)
    }),
    plain("leaky bucket", |quota| LeakyBucket::new(quota).map(Strategy::LeakyBucket)),
    plain("fixed window", |quota| FixedWindow::new(quota).map(Strategy::FixedWindow)),
    plain("sliding window", |quota| SlidingWindow::new(quota).map(Strategy::SlidingWindow)),
    with_option("sliding window, 10 slots", |quota| {
        SlidingWindow::with_slots(quota, 10).map(Strategy::SlidingWindow)
    }),
    plain("sliding log", |quota| SlidingLog::new(quota).map(Strategy::SlidingLog)),
];

/// Returns the contender with this name.
pub(crate) fn named(name: &str) -> Contender {
    *CONTENDERS.iter().find(|contender| contender.name == name).expect("names are those above")
}

/// The default quota of the measurements: 100 per minute.
pub(crate) const LIMIT: u32 = 100;
pub(crate) const PERIOD: Duration = Duration::from_secs(60);
