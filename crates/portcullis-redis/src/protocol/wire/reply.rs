//! The reply of a script.

use bytes::Bytes;
use portcullis_core::algorithm::{CalendarCount, LogView, PermitsView, Slots, State, Tat, Window};
use portcullis_core::store::CheckResult;
use portcullis_core::{
    FixedWindow, InFlight, SlidingLog, SlidingWindow, StoreError, StoreErrorKind, Strategy, Timestamp,
};

use super::{DOUBLE, micros};
use crate::protocol::value::Value;

/// The numbers of a reply, read from the front.
#[derive(Debug)]
pub(crate) struct Reply {
    text: Bytes,
    read: usize,
}

/// The part of a state that a script returns: of a log and of permits only what their figures are computed from.
#[derive(Debug)]
pub(crate) enum StoredState {
    State(Strategy, Option<State>),
    Log(SlidingLog, Option<LogView>),
    /// With the first instant at which the state equals no state.
    Permits(InFlight, Option<(PermitsView, u64)>),
}

impl Reply {
    pub(crate) fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Text(text) => Ok(Self { text, read: 0 }),
            _ => Err(malformed()),
        }
    }

    /// Reads from a position on.
    pub(super) fn from_position(bytes: &Bytes, read: usize) -> Self {
        Self { text: bytes.clone(), read }
    }

    pub(crate) fn at(&mut self) -> Result<Timestamp, StoreError> {
        self.number().map(Timestamp::from_micros)
    }

    /// Reads whether the cost fits, and the expiry that was set, in milliseconds, or 0.
    pub(crate) fn done(&mut self) -> Result<(bool, u64), StoreError> {
        let status = self.number()?;
        Ok((status % 2 == 1, status / 2))
    }

    pub(crate) fn stored(&mut self, strategy: &Strategy) -> Result<StoredState, StoreError> {
        let state = match strategy {
            Strategy::SlidingLog(log) => return Ok(StoredState::Log(*log, self.view()?)),
            Strategy::InFlight(limit) => return Ok(StoredState::Permits(*limit, self.permits()?)),
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                self.tat()?.map(State::Tat)
            }
            Strategy::FixedWindow(window) => self.window(window)?.map(State::Window),
            Strategy::CalendarWindow(_) => self.calendar_count()?.map(State::CalendarCount),
            Strategy::SlidingWindow(window) => self.slots(window)?.map(State::Slots),
        };
        Ok(StoredState::State(*strategy, state))
    }

    fn view(&mut self) -> Result<Option<LogView>, StoreError> {
        let (used, next) = (self.number()?, self.number()?);
        let view = LogView { used, next, newest: self.number()?, fits: self.number()? };
        Ok((used > 0).then_some(view))
    }

    fn permits(&mut self) -> Result<Option<(PermitsView, u64)>, StoreError> {
        let (epoch, next, expires_at) = (self.number()?, self.number()?, self.number()?);
        let view = PermitsView { epoch, next, held: self.number()?, latest: self.number()? };
        Ok((expires_at > 0).then_some((view, expires_at)))
    }

    fn tat(&mut self) -> Result<Option<Tat>, StoreError> {
        let tat = Tat { micros: self.number()?, remainder: self.number()? };
        Ok(((tat.micros, tat.remainder) != (0, 0)).then_some(tat))
    }

    fn window(&mut self, window: &FixedWindow) -> Result<Option<Window>, StoreError> {
        let (end, count) = (self.number()?, self.number()?);
        Ok((count > 0).then_some(Window { end, length: micros(window.period()), count }))
    }

    fn calendar_count(&mut self) -> Result<Option<CalendarCount>, StoreError> {
        let (window, end, count) = (self.number()?, self.number()?, self.number()?);
        // A window that does not end is one microsecond longer in core, which the script cannot state: its numbers are below 2^53.
        let end = if end == Timestamp::MAX.as_micros() { end + 1 } else { end };
        Ok((count > 0).then_some(CalendarCount { window, end, count }))
    }

    /// Zero counts at the end are omitted on the wire.
    fn slots(&mut self, window: &SlidingWindow) -> Result<Option<Slots>, StoreError> {
        let held = self.number()?;
        if held == 0 {
            return Ok(None);
        }
        let places = u64::from(window.slots()).saturating_add(1);
        if held > places {
            return Err(malformed());
        }
        let end = self.number()?;
        let counts: Result<Vec<u64>, _> =
            (0..places).map(|place| if place < held { self.number() } else { Ok(0) }).collect();
        Ok(Some(Slots::new(end, micros(window.slot()), counts?)))
    }

    pub(super) fn number(&mut self) -> Result<u64, StoreError> {
        let number = number_at(&self.text, self.read).ok_or_else(malformed)?;
        self.read += DOUBLE;
        Ok(number)
    }
}

/// Whether the state of the first key was written.
pub(crate) fn wrote(reply: &Value) -> bool {
    let Some(bytes) = reply.as_bytes() else { return false };
    // Twice the expiry, plus 1 if the cost fits.
    number_at(bytes, STATUS).is_some_and(|status| status > 1)
}

/// The double at a position of a reply, which is a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and not negative")]
pub(in crate::protocol) fn number_at(reply: &[u8], position: usize) -> Option<u64> {
    let (double, _) = reply.get(position..)?.split_first_chunk()?;
    let number = f64::from_le_bytes(*double);
    let is_whole = number.is_finite() && number >= 0.0 && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

impl StoredState {
    pub(crate) fn check_result(&self, at: Timestamp, cost: u64, admitted: bool) -> CheckResult {
        match self {
            Self::State(strategy, state) => CheckResult::of(strategy, state.as_ref(), at, cost, admitted),
            Self::Log(log, view) => CheckResult {
                admitted,
                snapshot: log.snapshot_of(*view, at, cost, admitted),
                position: log.position_of(*view, at),
            },
            Self::Permits(limit, stored) => {
                let view = stored.map(|(view, _)| view);
                let snapshot = limit.snapshot_of(view, at, cost, admitted);
                CheckResult { admitted, snapshot, position: limit.position_of(view) }
            }
        }
    }

    /// The first instant at which the state equals no state.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        match self {
            Self::State(strategy, state) => state.as_ref().map(|state| strategy.expires_at(state)),
            Self::Log(log, view) => view.map(|view| log.expiry_of(view)),
            Self::Permits(_, stored) => stored.map(|(_, expires_at)| expires_at),
        }
    }

    /// How many of `units` a forced charge at `at` has charged, and how many it has not.
    pub(crate) fn forced(self, at: Timestamp, units: u64) -> (u64, u64) {
        match self {
            Self::State(strategy, mut state) => {
                let forced = strategy.force_charge(&mut state, at, units);
                (forced.charged, forced.uncharged)
            }
            Self::Log(log, view) => {
                let uncharged = log.uncharged(view.map_or(0, |view| view.used), units);
                (units.saturating_sub(uncharged), uncharged)
            }
            Self::Permits(limit, stored) => {
                let held = stored.map_or(0, |(view, _)| view.held);
                let charged = units.min(limit.limit().saturating_mul(2).saturating_sub(held));
                (charged, units.saturating_sub(charged))
            }
        }
    }
}

pub(in crate::protocol) fn malformed() -> StoreError {
    StoreError::new(StoreErrorKind::Failed, "redis sent a reply that is not one of the script")
}

/// The position of the first key's status: after the instant.
const STATUS: usize = DOUBLE;

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, PolicyName, Quota};

    use super::*;
    use crate::store::tests::{in_flight, policies_and_permits};

    fn bytes(numbers: &[f64]) -> Bytes {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn reply(numbers: &[f64]) -> Value {
        Value::Text(bytes(numbers))
    }

    fn read(policy: &Policy, numbers: &[f64]) -> Result<StoredState, StoreError> {
        Reply::new(reply(numbers)).unwrap().stored(policy.strategy())
    }

    #[test]
    fn omitted_counts_are_zero() {
        let quota = Quota::per_minute(5);
        let sliding = SlidingWindow::with_slots(quota, 3).unwrap();
        let sliding = Policy::new(PolicyName::literal("sliding"), Strategy::SlidingWindow(sliding));
        let Ok(StoredState::State(_, Some(State::Slots(slots)))) = read(&sliding, &[1.0, 120e6, 7.0]) else {
            panic!("a state of slots");
        };
        let expected = (120_000_000, 20_000_000, [7, 0, 0, 0].as_slice());
        assert_eq!((slots.end(), slots.width(), slots.counts()), expected);
    }

    #[test]
    fn a_status_is_an_expiry_and_whether_the_cost_fits() {
        for (status, done, written) in
            [(0.0, (false, 0), false), (1.0, (true, 0), false), (8.0, (false, 4), true)]
        {
            let numbers = reply(&[1e15, status]);
            assert_eq!(wrote(&numbers), written, "{status}");
            let mut reply = Reply::new(numbers).unwrap();
            assert_eq!(reply.at().unwrap().as_micros(), 1_000_000_000_000_000);
            assert_eq!(reply.done().unwrap(), done, "{status}");
        }
    }

    #[test]
    fn numbers_that_no_script_sends_do_not_panic() {
        let quota = Quota::per_minute(5);
        let mut policies = policies_and_permits(quota);
        policies.push(Policy::gcra("spaced", quota));
        let mut rng = fastrand::Rng::with_seed(1);
        let exponents = [31, 32, 53, 63, 64, 1_000].map(|exponent| 2_f64.powi(exponent));
        let odd = [&[0.0, 1.0, 2.0, 60e6, 2_f64.powi(53) - 1.0][..], &exponents].concat();
        for _ in 0..2 * portcullis_testing::timeline::steps() {
            let policy = &policies[rng.usize(..policies.len())];
            let mut number = || odd[rng.usize(..odd.len())];
            let at = number_at(&bytes(&[number()]), 0).map_or(Timestamp::EPOCH, Timestamp::from_micros);
            let cost = number_at(&bytes(&[number()]), 0).unwrap();
            for count in [1, 2, 3, 4, 5] {
                let mut numbers: Vec<f64> = (0..count).map(|_| number()).collect();
                if matches!(policy.strategy(), Strategy::SlidingWindow(_)) && count > 2 {
                    numbers[0] = [1.0, 2.0, 3.0][count - 3];
                }
                let Ok(stored) = read(policy, &numbers) else { continue };
                for admitted in [true, false] {
                    let _ = stored.check_result(at, cost, admitted);
                }
                let _ = stored.expires_at();
                let _ = stored.forced(at, cost);
            }
        }
    }

    #[test]
    fn a_reply_that_no_script_sends_is_an_error() {
        let bucket = Policy::token_bucket("bucket", Quota::per_minute(5));
        let window = Policy::fixed_window("window", Quota::per_minute(5));
        let calendar = Policy::calendar_window("calendar", 5, &portcullis_testing::calendars()[0]);
        let sliding = Policy::sliding_window("sliding", Quota::per_minute(5));
        let log = Policy::sliding_log("log", Quota::per_minute(5));
        let permits = in_flight("permits", 5);
        for (policy, numbers) in [
            (&bucket, &[][..]),
            (&bucket, &[1.0]),
            (&bucket, &[1.0, -1.0]),
            (&bucket, &[1.5, 0.0]),
            (&bucket, &[f64::NAN, 0.0]),
            (&bucket, &[f64::INFINITY, 0.0]),
            (&window, &[2.0]),
            (&calendar, &[2.0, 60e6]),
            (&sliding, &[]),
            (&sliding, &[1.0, 120e6]),
            (&sliding, &[3.0, 120e6, 1.0, 1.0, 1.0]),
            (&sliding, &[1e15, 120e6, 1.0, 1.0, 1.0]),
            (&log, &[3.0, 1.0, 1.0]),
            (&log, &[0.5, 1.0, 1.0, 1.0]),
            (&permits, &[1e15, 2.0, 2e15, 1.0]),
            (&permits, &[1e15, 2.0, 2e15, 0.5, 2e15]),
        ] {
            assert!(read(policy, numbers).is_err(), "{numbers:?} for {}", policy.name());
        }
        let short = Value::Text(Bytes::from_static(&[0; 15]));
        assert!(Reply::new(short).unwrap().stored(bucket.strategy()).is_err());
        assert!(Reply::new(Value::Null).is_err());
        assert!(!wrote(&Value::Null));
    }
}
