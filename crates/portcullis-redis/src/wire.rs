//! What goes over the wire: a call's arguments, and the reply to it.

mod reply;

use std::time::Duration;

use fred::types::Value;
use portcullis_core::{FixedWindow, Meter, SlidingLog, SlidingWindow, Strategy, Timestamp};
use smallvec::{SmallVec, smallvec};

use crate::scripts::Function;

pub(crate) use reply::{Kept, Reply, wrote};

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
            Strategy::TokenBucket(bucket) => meter(bucket.meter(), cost),
            Strategy::Gcra(gcra) => meter(gcra.meter(), cost),
            Strategy::LeakyBucket(bucket) => meter(bucket.meter(), cost),
            Strategy::FixedWindow(window) => fixed_window(window, cost, operation),
            Strategy::SlidingWindow(window) => sliding_window(window, cost, operation),
            Strategy::SlidingLog(log) => sliding_log(log, cost, operation),
        };
        arguments.push(Function::of(strategy).name().into());
        arguments.push(parameters.len().to_string().into());
        arguments.extend(parameters.into_iter().map(|number| Value::from(number.to_string())));
    }
    arguments
}

type Parameters = SmallVec<[u64; 6]>;

fn meter(meter: &Meter, cost: u32) -> Parameters {
    let (full, cost) = (meter.capacity(), meter.span(cost));
    let (full, cost) = ([full.micros, full.remainder], [cost.micros, cost.remainder]);
    smallvec![meter.denominator(), full[0], full[1], cost[0], cost[1], meter.grain()]
}

fn fixed_window(window: &FixedWindow, cost: u32, operation: Operation) -> Parameters {
    let period = micros(window.period());
    let phase = window.phase().unwrap_or(period);
    smallvec![period, phase, window.limit().into(), cost.into(), operation.charged_at()]
}

fn sliding_window(window: &SlidingWindow, cost: u32, operation: Operation) -> Parameters {
    let (width, slots) = (micros(window.slot()), window.slots().into());
    smallvec![width, slots, window.limit().into(), cost.into(), operation.charged_at()]
}

fn sliding_log(log: &SlidingLog, cost: u32, operation: Operation) -> Parameters {
    smallvec![micros(log.period()), log.limit().into(), cost.into(), operation.charged_at()]
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
