//! States that no store would pass, and time that moves in any direction.

mod encoded;
mod properties;

use std::time::Duration;

use portcullis_core::algorithm::{Algorithm, CalendarCount, Log, Permit, Permits, Slots, State, Tat, Window};
use portcullis_core::{
    Anchor, CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, Policy, PolicyName, Quota, Refill,
    SlidingLog, SlidingWindow, Strategy, Timestamp, TokenBucket,
};

use portcullis_testing::calendars;

use crate::bytes::Bytes;
pub use encoded::encoded_state;
use properties::StateUnderTest;

/// Checks the properties of any strategy on any state at any time: the figures are consistent, waits are exact, and no client
/// is unlimited.
pub fn state(input: &[u8]) {
    let mut bytes = Bytes(input);
    let Some(strategy) = strategy(&mut bytes) else { return };
    let period = period_of(&strategy);
    let now = Timestamp::from_micros(bytes.near(crate::sane::PRESENT.as_micros(), period));
    let state = stored(&mut bytes, &strategy, now.as_micros(), period);
    let policy = Policy::new(PolicyName::literal("p"), strategy);
    let mut subject = StateUnderTest { policy, state, now };
    for _ in 0..MAX_STEPS {
        subject.check_properties(bytes.u32().into());
        subject.step(&mut bytes, period);
        if bytes.is_empty() {
            break;
        }
    }
    subject.is_limited_at_one_instant();
}

pub(crate) fn strategy(bytes: &mut Bytes<'_>) -> Option<Strategy> {
    let kind = bytes.byte();
    let limit = match kind >> 6 {
        0 | 1 => bytes.byte().into(),
        2 => bytes.u32().into(),
        _ => bytes.u64() % (Quota::MAX_UNITS + 1),
    };
    let period = bytes.near(1_000_000, 1_000);
    let period_of = Duration::from_micros(period);
    let quota = Quota::new(limit, period_of, None).ok()?;
    let detail = bytes.u32();
    let burst = Quota::new(limit, period_of, (detail > 0).then_some(detail.into())).ok()?;
    Some(match kind % 10 {
        0 => Strategy::TokenBucket(TokenBucket::new(burst).ok()?),
        1 => Strategy::TokenBucket(TokenBucket::new(burst).ok()?.refilled(Refill::Interval)),
        2 => Strategy::Gcra(Gcra::new(burst).ok()?),
        3 => Strategy::LeakyBucket(LeakyBucket::new(burst).ok()?),
        4 => Strategy::FixedWindow(FixedWindow::new(quota).ok()?.anchored(anchor(detail))),
        5 => Strategy::SlidingWindow(SlidingWindow::new(quota).ok()?),
        6 => Strategy::SlidingWindow(SlidingWindow::with_slots(quota, detail % 64).ok()?),
        7 => {
            let table = &calendars()[usize::try_from(detail % 3).ok()?];
            Strategy::CalendarWindow(CalendarWindow::new(limit, table).ok()?)
        }
        8 => Strategy::InFlight(
            InFlight::new(limit % 1_024).ok()?.with_lease(Duration::from_micros(period)).ok()?,
        ),
        _ => {
            Strategy::SlidingLog(SlidingLog::new(Quota::new(limit % 1_024, quota.period(), None).ok()?).ok()?)
        }
    })
}

fn anchor(detail: u32) -> Anchor {
    match detail % 3 {
        0 => Anchor::Epoch,
        1 => Anchor::FirstRequest,
        _ => Anchor::Instant(Timestamp::from_micros(detail.into())),
    }
}

fn period_of(strategy: &Strategy) -> u64 {
    let period = match strategy {
        Strategy::TokenBucket(bucket) => return bucket.meter().capacity().micros.max(bucket.meter().grain()),
        Strategy::Gcra(gcra) => return gcra.meter().capacity().micros,
        Strategy::LeakyBucket(bucket) => return bucket.meter().capacity().micros,
        Strategy::FixedWindow(window) => window.period(),
        Strategy::CalendarWindow(window) => window.table().longest(),
        Strategy::SlidingWindow(window) => window.slot(),
        Strategy::SlidingLog(log) => log.period(),
        Strategy::InFlight(limit) => limit.lease(),
    };
    u64::try_from(period.as_micros()).unwrap_or(u64::MAX)
}

/// A state of this or another kind of strategy, with any numbers.
fn stored(bytes: &mut Bytes<'_>, strategy: &Strategy, now: u64, period: u64) -> Option<State> {
    let kind = bytes.byte();
    let own = match strategy {
        Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => 0,
        Strategy::FixedWindow(_) => 1,
        Strategy::SlidingWindow(_) => 2,
        Strategy::SlidingLog(_) => 3,
        Strategy::CalendarWindow(_) => 4,
        Strategy::InFlight(_) => 5,
    };
    let kind = if kind & 0xf0 == 0 { kind % 6 } else { own };
    let length = if bytes.byte().is_multiple_of(4) { bytes.near(now, period) } else { period };
    Some(match kind {
        0 => State::Tat(Tat { micros: bytes.near(now, period), remainder: bytes.near(0, 1) }),
        1 => State::Window(Window {
            end: bytes.near(now, period),
            length,
            count: bytes.near(strategy.limit(), 1),
        }),
        2 => {
            let own = if let Strategy::SlidingWindow(window) = strategy { window.slots() + 1 } else { 2 };
            let count = if bytes.byte().is_multiple_of(8) { bytes.byte().into() } else { own };
            let end = bytes.near(now, length);
            let counts: Vec<_> = (0..count).map(|_| bytes.near(strategy.limit(), 1)).collect();
            State::Slots(Slots::new(end, length, counts))
        }
        4 => {
            let now = Timestamp::from_micros(now);
            State::CalendarCount(CalendarCount {
                window: bytes.near(calendars()[0].number_at(now), 1),
                end: bytes.near(now.as_micros(), period),
                count: bytes.near(strategy.limit(), 1),
            })
        }
        5 => {
            let permit = |serial: u8| Permit { expires: bytes.near(now, period), serial: serial.into() };
            let held: Vec<_> = (1..=16).map(permit).collect();
            let kept = usize::from(bytes.byte() % 17);
            // Serial numbers that end are in the tests of core.
            let next = bytes.u32().into();
            State::Permits(Permits::new(
                bytes.near(now, period),
                next,
                bytes.near(now, period),
                held.into_iter().take(kept),
            ))
        }
        _ => State::Log(log(bytes, now, period)?),
    })
}

/// A log can only be built by charges: here at any instants, under a quota that has changed since.
fn log(bytes: &mut Bytes<'_>, now: u64, period: u64) -> Option<Log> {
    let quota = Quota::new(1_000, Duration::from_micros(bytes.near(period, period)), None).ok()?;
    let former = SlidingLog::new(quota).ok()?;
    let mut log = if bytes.byte().is_multiple_of(8) { Some(Log::default()) } else { None };
    for _ in 0..bytes.byte() % 8 {
        let at = Timestamp::from_micros(bytes.near(now, period));
        former.charge(&mut log, at, u64::from(bytes.byte()) + 1);
    }
    log
}

const MAX_STEPS: usize = 16;
