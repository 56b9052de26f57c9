//! What goes over the wire: a call's arguments, and the reply to it.

use fred::types::Value;
use portcullis_core::{
    Check, FixedWindow, Meter, Standing, State, StoreError, StoreErrorKind, Strategy, Tat, Timestamp, Window,
};
use smallvec::{SmallVec, smallvec};

use crate::scripts::Function;

/// What the script does with every key of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Check,
    Refund { charged_at: Timestamp },
    Force,
    Reset,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Refund { .. } => "refund",
            Self::Force => "force",
            Self::Reset => "reset",
        }
    }

    const fn charged_at(self) -> u64 {
        match self {
            Self::Refund { charged_at } => charged_at.as_micros(),
            Self::Check | Self::Force | Self::Reset => 0,
        }
    }
}

/// The arguments of a call: the operation, the instant of a scenario, and for each key its algorithm and parameters.
pub(crate) fn arguments<'a>(
    operation: Operation,
    now: Timestamp,
    checks: impl Iterator<Item = (&'a Strategy, u32)>,
) -> Vec<Value> {
    let mut arguments = vec![operation.name().into(), now.as_micros().to_string().into()];
    for (strategy, cost) in checks {
        let parameters = match strategy {
            Strategy::Gcra(gcra) => meter(gcra.meter(), cost),
            Strategy::FixedWindow(window) => fixed_window(window, cost, operation),
        };
        arguments.push(Function::of(strategy).name().into());
        arguments.push(parameters.len().to_string().into());
        arguments.extend(parameters.into_iter().map(|number| Value::from(number.to_string())));
    }
    arguments
}

fn meter(meter: &Meter, cost: u32) -> SmallVec<[u64; 5]> {
    let (full, cost) = (meter.capacity(), meter.span(cost));
    smallvec![meter.denominator(), full.micros, full.remainder, cost.micros, cost.remainder]
}

fn fixed_window(window: &FixedWindow, cost: u32, operation: Operation) -> SmallVec<[u64; 5]> {
    let period = u64::try_from(window.period().as_micros()).unwrap_or(u64::MAX);
    let phase = window.phase().unwrap_or(period);
    smallvec![period, phase, window.limit().into(), cost.into(), operation.charged_at()]
}

/// The numbers of a reply, read from the front.
#[derive(Debug)]
pub(crate) struct Reply {
    numbers: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(crate) fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Array(numbers) => Ok(Self { numbers: numbers.into_iter() }),
            _ => Err(malformed()),
        }
    }

    pub(crate) fn at(&mut self) -> Result<Timestamp, StoreError> {
        self.number().map(Timestamp::from_micros)
    }

    /// What was done about one key, and the expiry that was set, in milliseconds, or 0.
    pub(crate) fn standing(&mut self, check: &Check) -> Result<(Standing, u64), StoreError> {
        let admitted = self.number()? == 1;
        let expiry = self.number()?;
        Ok((Standing { admitted, state: self.state(check.policy.strategy())? }, expiry))
    }

    pub(crate) fn state(&mut self, strategy: &Strategy) -> Result<Option<State>, StoreError> {
        let count = self.number()?;
        if count == 0 {
            return Ok(None);
        }
        let state = match (strategy, count) {
            (Strategy::Gcra(_), 1) => State::Tat(Tat { micros: self.number()?, remainder: 0 }),
            (Strategy::Gcra(_), 2) => State::Tat(Tat { micros: self.number()?, remainder: self.number()? }),
            (Strategy::FixedWindow(_), 3) => {
                State::Window(Window { end: self.number()?, length: self.number()?, count: self.number()? })
            }
            (Strategy::Gcra(_) | Strategy::FixedWindow(_), _) => return Err(malformed()),
        };
        Ok(Some(state))
    }

    fn number(&mut self) -> Result<u64, StoreError> {
        let number = self.numbers.next().and_then(|value| value.as_i64());
        number.and_then(|number| u64::try_from(number).ok()).ok_or_else(malformed)
    }
}

fn malformed() -> StoreError {
    StoreError::new(StoreErrorKind::Failed, "redis replied with something that the script never sends")
}
