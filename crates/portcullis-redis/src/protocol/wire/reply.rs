//! The reply of a script.

use portcullis_core::algorithm::{LogView, Slots, State, Tat, Window};
use portcullis_core::store::CheckResult;
use portcullis_core::{SlidingLog, StoreError, StoreErrorKind, Strategy, Timestamp};

use crate::protocol::value::Value;

/// The numbers of a reply, read from the front.
#[derive(Debug)]
pub(crate) struct Reply {
    numbers: std::vec::IntoIter<i64>,
}

/// The part of a state that a script returns: of a log only what its figures are computed from.
#[derive(Debug)]
pub(crate) enum StoredState {
    State(Strategy, Option<State>),
    Log(SlidingLog, Option<LogView>),
}

impl Reply {
    pub(crate) fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Integers(numbers) => Ok(Self { numbers: numbers.into_iter() }),
            _ => Err(malformed()),
        }
    }

    pub(crate) fn at(&mut self) -> Result<Timestamp, StoreError> {
        self.number().map(Timestamp::from_micros)
    }

    /// Reads whether the cost fits, and the expiry that was set, in milliseconds, or 0.
    pub(crate) fn done(&mut self) -> Result<(bool, u64), StoreError> {
        Ok((self.number()? == 1, self.number()?))
    }

    pub(crate) fn stored(&mut self, strategy: &Strategy) -> Result<StoredState, StoreError> {
        let count = self.number()?;
        let state = match strategy {
            Strategy::SlidingLog(log) => {
                let view = if count == 0 { None } else { Some(self.view(count)?) };
                return Ok(StoredState::Log(*log, view));
            }
            _ if count == 0 => None,
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                Some(State::Tat(self.tat(count)?))
            }
            Strategy::FixedWindow(_) => Some(State::Window(self.window(count)?)),
            Strategy::SlidingWindow(_) => Some(State::Slots(self.slots(count)?)),
        };
        Ok(StoredState::State(*strategy, state))
    }

    fn view(&mut self, count: u64) -> Result<LogView, StoreError> {
        require(count == 4)?;
        let (used, next) = (self.number()?, self.number()?);
        Ok(LogView { used, next, newest: self.number()?, fits: self.number()? })
    }

    /// A remainder of zero is omitted on the wire.
    fn tat(&mut self, count: u64) -> Result<Tat, StoreError> {
        require(matches!(count, 1 | 2))?;
        Ok(Tat { micros: self.number()?, remainder: if count == 2 { self.number()? } else { 0 } })
    }

    fn window(&mut self, count: u64) -> Result<Window, StoreError> {
        require(count == 3)?;
        Ok(Window { end: self.number()?, length: self.number()?, count: self.number()? })
    }

    /// Zero counts at the end are omitted on the wire, but the first one is not.
    fn slots(&mut self, count: u64) -> Result<Slots, StoreError> {
        let held = count.checked_sub(3).filter(|held| *held > 0).ok_or_else(malformed)?;
        let (end, width, places) = (self.number()?, self.number()?, self.number()?.saturating_add(1));
        if held > places || places > MOST_PLACES {
            return Err(malformed());
        }
        let counts: Result<Vec<u64>, _> =
            (0..places).map(|place| if place < held { self.number() } else { Ok(0) }).collect();
        Ok(Slots::new(end, width, counts?))
    }

    fn number(&mut self) -> Result<u64, StoreError> {
        self.numbers.next().and_then(|number| u64::try_from(number).ok()).ok_or_else(malformed)
    }
}

/// Whether the state of the first key was written.
pub(crate) fn wrote(reply: &Value) -> bool {
    let Value::Integers(numbers) = reply else { return false };
    numbers.get(EXPIRY).is_some_and(|expiry| *expiry > 0)
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
        }
    }

    /// The first instant at which the state equals no state.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        match self {
            Self::State(strategy, state) => state.as_ref().map(|state| strategy.expires_at(state)),
            Self::Log(log, view) => view.map(|view| log.expiry_of(view)),
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
        }
    }
}

fn require(is_sent_by_a_script: bool) -> Result<(), StoreError> {
    if is_sent_by_a_script { Ok(()) } else { Err(malformed()) }
}

fn malformed() -> StoreError {
    StoreError::new(StoreErrorKind::Failed, "redis sent a reply that is not one of the script")
}

/// The index of the first key's expiry: after the instant and whether its cost fits.
const EXPIRY: usize = 2;
/// One more than the maximum number of slots.
const MOST_PLACES: u64 = 1_001;

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota};

    use super::*;
    use crate::store::tests::policies;

    fn read(policy: &Policy, numbers: &[i64]) -> Result<StoredState, StoreError> {
        Reply::new(Value::Integers(numbers.to_vec())).unwrap().stored(policy.strategy())
    }

    #[test]
    fn omitted_counts_are_zero() {
        let sliding = Policy::sliding_window("sliding", Quota::per_minute(5));
        let Ok(StoredState::State(_, Some(State::Slots(slots)))) = read(&sliding, &[4, 120, 60, 3, 7]) else {
            panic!("a state of slots");
        };
        assert_eq!((slots.end(), slots.width(), slots.counts()), (120, 60, [7, 0, 0, 0].as_slice()));
    }

    #[test]
    fn numbers_that_no_script_sends_do_not_panic() {
        let quota = Quota::per_minute(5);
        let mut policies = policies(quota);
        policies.push(Policy::gcra("spaced", quota));
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap()
        };
        let odd = [0, 1, 2, 60_000_000, 1 << 31, 1 << 32, (1 << 53) - 1, 1 << 53, i64::MAX - 1, i64::MAX];
        for _ in 0..200_000 {
            let policy = &policies[random() % policies.len()];
            let mut number = || odd[random() % odd.len()];
            let (at, cost) = (Timestamp::from_micros(number().unsigned_abs()), number().unsigned_abs());
            for count in [1, 2, 3, 4, 5] {
                let mut numbers = vec![count];
                numbers.extend((0..count).map(|_| number()));
                if matches!(policy.strategy(), Strategy::SlidingWindow(_)) && count > 3 {
                    numbers[3] = 1;
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
        let sliding = Policy::sliding_window("sliding", Quota::per_minute(5));
        let log = Policy::sliding_log("log", Quota::per_minute(5));
        for (policy, numbers) in [
            (&bucket, &[][..]),
            (&bucket, &[1]),
            (&bucket, &[3, 1, 1, 1]),
            (&bucket, &[1, -1]),
            (&window, &[2, 1, 1]),
            (&sliding, &[3, 120, 60, 1]),
            (&sliding, &[6, 120, 60, 1, 1, 1, 1]),
            (&sliding, &[4, 120, 60, 1_001, 1]),
            (&sliding, &[4, 120, 60, i64::MAX, 1]),
            (&log, &[3, 1, 1, 1]),
            (&log, &[4, 1, 1, 1]),
        ] {
            assert!(read(policy, numbers).is_err(), "{numbers:?} for {}", policy.name());
        }
        assert!(Reply::new(Value::Null).is_err());
    }
}
