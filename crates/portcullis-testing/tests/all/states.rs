//! Generates strategies of every kind, and the states after charges.

use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::{
    Anchor, CalendarWindow, FixedWindow, Gcra, LeakyBucket, Policy, PolicySettings, Quota, QuotaError,
    Refill, SlidingLog, SlidingWindow, Strategy as Limiting, Timestamp, TokenBucket,
};
use portcullis_testing::calendars;
use proptest::prelude::*;
use proptest::sample::select;

/// A strategy, an instant, and the state after some charges.
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    pub(crate) strategy: Limiting,
    pub(crate) now: Timestamp,
    pub(crate) state: Option<State>,
}

/// Generates states. Each charge costs a number of sixteenths of the limit, and comes some microseconds or thousandths of a
/// period after the one before.
pub(crate) fn charged() -> impl Strategy<Value = Charged> {
    let later =
        prop_oneof![(0_u64..1_000_000, Just(0_u64)), (Just(0_u64), 0_u64..1_500), (0_u64..3, 0_u64..300)];
    let charges = proptest::collection::vec((1_u64..=16, later), 1..8);
    (strategies(), 0_u64..1 << 51, charges).prop_map(|((strategy, period), start, charges)| {
        let (mut now, mut state) = (start, None);
        for (sixteenths, (micros, thousandths)) in charges {
            now += micros + period * thousandths / 1_000;
            let cost = strategy.limit() * sixteenths / 16;
            let transition = strategy.decide(state.as_ref(), at(now), cost.max(1));
            state = if transition.admitted { transition.after } else { state };
        }
        Charged { strategy, now: at(now), state }
    })
}

/// Strategies of every kind, each with its period.
pub(crate) fn strategies() -> impl Strategy<Value = (Limiting, u64)> {
    let anchors = prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0_u64..1 << 51).prop_map(|micros| Anchor::Instant(at(micros))),
    ];
    let kinds = prop_oneof![
        limits().prop_map(Kind::Greedy),
        limits().prop_map(Kind::Interval),
        limits().prop_map(Kind::Gcra),
        limits().prop_map(Kind::Leaky),
        anchors.prop_map(Kind::Windows),
        (0..calendars().len()).prop_map(Kind::Calendar),
        select(&[1_u32, 2, 6, 60][..]).prop_map(Kind::Slots),
        Just(Kind::Log),
    ];
    let periods = prop_oneof![
        Just(1_u64),
        Just(1_000_000),
        Just(30 * 86_400_000_000),
        1_u64..10_000_000,
        1_u64..86_400_000_000
    ];
    let debts = prop_oneof![2 => Just(None), 1 => (0_u64..100).prop_map(Some), 1 => Just(Some(123_456))];
    (limits(), periods, kinds, debts).prop_filter_map(
        "too slow or too fine",
        |(limit, period, kind, debt)| {
            let (strategy, period) = kind.strategy(limit, period).ok()?;
            let settings = PolicySettings { max_debt: debt, ..PolicySettings::default() };
            let policy = Policy::try_new("p", Ok(strategy), settings).ok()?;
            Some((*policy.strategy(), period))
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Greedy(u64),
    Interval(u64),
    Gcra(u64),
    Leaky(u64),
    Windows(Anchor),
    /// The index of one of the calendars.
    Calendar(usize),
    Slots(u32),
    Log,
}

impl Kind {
    fn strategy(self, limit: u64, period: u64) -> Result<(Limiting, u64), QuotaError> {
        let per = |limit, period| Quota::new(limit, Duration::from_micros(period), None);
        let quota = per(limit, period)?;
        let strategy = match self {
            Self::Greedy(burst) => Limiting::TokenBucket(TokenBucket::new(quota.burst(burst))?),
            Self::Interval(burst) => {
                Limiting::TokenBucket(TokenBucket::new(quota.burst(burst))?.refilled(Refill::Interval))
            }
            Self::Gcra(burst) => Limiting::Gcra(Gcra::new(quota.burst(burst))?),
            Self::Leaky(burst) => Limiting::LeakyBucket(LeakyBucket::new(quota.burst(burst))?),
            Self::Windows(anchor) => Limiting::FixedWindow(FixedWindow::new(quota)?.anchored(anchor)),
            Self::Calendar(index) => {
                let table = &calendars()[index];
                let period = u64::try_from(table.longest().as_micros()).unwrap();
                return Ok((Limiting::CalendarWindow(CalendarWindow::new(limit, table)?), period));
            }
            Self::Slots(slots) => {
                let period = period.next_multiple_of(slots.into());
                let window = SlidingWindow::with_slots(per(limit, period)?, slots)?;
                return Ok((Limiting::SlidingWindow(window), period));
            }
            Self::Log => Limiting::SlidingLog(SlidingLog::new(per(limit.min(LONGEST_LOG), period)?)?),
        };
        Ok((strategy, period))
    }
}

fn limits() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..=5, 1_u64..=1_000, Just(30_000), Just(10_000_000)]
}

/// The longest time for which a clock step can deny a cost of the whole limit: the time in which the full limit and the largest debt
/// are replenished, or two periods, and with slots until the newest has faded.
pub(crate) fn longest_denial(strategy: &Limiting) -> u64 {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
    match strategy {
        Limiting::TokenBucket(bucket) => deepest(bucket.meter()),
        Limiting::Gcra(gcra) => deepest(gcra.meter()),
        Limiting::LeakyBucket(bucket) => deepest(bucket.meter()),
        Limiting::FixedWindow(windows) => 2 * micros(windows.period()),
        Limiting::CalendarWindow(window) => 2 * micros(window.table().longest()),
        Limiting::SlidingWindow(window) => 2 * micros(window.period()) + micros(window.slot()),
        Limiting::SlidingLog(log) => 2 * micros(log.period()),
        Limiting::InFlight(limit) => micros(limit.lease()),
    }
}

/// The time in which the largest debt and the full limit are replenished, rounded up to the refill interval.
fn deepest(meter: &portcullis_core::algorithm::Meter) -> u64 {
    let deepest = meter.deepest();
    (deepest.micros + u64::from(deepest.remainder > 0)).next_multiple_of(meter.grain())
}

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

const LONGEST_LOG: u64 = 2_000;
