//! The wire format: a call's arguments, and the reply to it.

mod reply;

use std::time::Duration;

use bytes::Bytes;
use portcullis_core::algorithm::Meter;
use portcullis_core::store::{Refund, Run};
use portcullis_core::{FixedWindow, Quota, SlidingLog, SlidingWindow, Strategy, Timestamp};
use smallvec::{SmallVec, smallvec};

use super::scripts::Function;

pub(crate) use reply::{Reply, StoredState, wrote};

/// The operation that a script applies to every key of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'r> {
    Check,
    Refund(Refund<'r>),
    Force,
    Reset,
}

impl Operation<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Refund(refund) if refund.only_newest() => "refund_newest",
            Self::Refund(_) => "refund",
            Self::Force => "force",
            Self::Reset => "reset",
        }
    }
}

/// The arguments of a call: the operation, the instant of a scenario, and for each key its algorithm and parameters.
pub(crate) fn arguments<'a>(
    operation: Operation<'_>,
    now: Timestamp,
    checks: impl Iterator<Item = (&'a Strategy, u64)>,
) -> Vec<Bytes> {
    let mut arguments = vec![operation.name().into(), now.as_micros().to_string().into()];
    for (strategy, cost) in checks {
        let mut parameters = match strategy {
            Strategy::TokenBucket(bucket) => meter(bucket.meter(), cost),
            Strategy::Gcra(gcra) => meter(gcra.meter(), cost),
            Strategy::LeakyBucket(bucket) => meter(bucket.meter(), cost),
            Strategy::FixedWindow(window) => fixed_window(window, cost),
            Strategy::SlidingWindow(window) => sliding_window(window, cost),
            Strategy::SlidingLog(log) => sliding_log(log, cost),
        };
        if let Operation::Refund(refund) = operation {
            add_runs(&mut parameters, strategy, refund);
        }
        arguments.push(Function::of(strategy).name().into());
        arguments.push(parameters.len().to_string().into());
        arguments.extend(parameters.into_iter().map(|number| Bytes::from(number.to_string())));
    }
    arguments
}

type Parameters = SmallVec<[u64; 6]>;

fn meter(meter: &Meter, cost: u64) -> Parameters {
    let (full, cost) = (meter.capacity(), meter.span(cost));
    let (full, cost) = ([full.micros, full.remainder], [cost.micros, cost.remainder]);
    smallvec![meter.denominator(), full[0], full[1], cost[0], cost[1], meter.grain()]
}

/// Maximum units passed to the script, so that sums stay below 2^53, exact in a double. Every
/// decision stays the same: more than the limit never fits, and a state holds at most twice the limit.
fn bounded(units: u64) -> u64 {
    units.min(2 * Quota::MAX_UNITS)
}

fn fixed_window(window: &FixedWindow, cost: u64) -> Parameters {
    let period = micros(window.period());
    let phase = window.phase().unwrap_or(period);
    smallvec![period, phase, window.limit(), bounded(cost)]
}

fn sliding_window(window: &SlidingWindow, cost: u64) -> Parameters {
    let (width, slots) = (micros(window.slot()), window.slots().into());
    smallvec![width, slots, window.limit(), bounded(cost)]
}

fn sliding_log(log: &SlidingLog, cost: u64) -> Parameters {
    smallvec![micros(log.period()), log.limit(), bounded(cost)]
}

/// Adds the runs to refund, the newest first: for a rate-based algorithm the length of each run and its end, else its units and
/// its position. Their number is bounded by the receipt.
fn add_runs(parameters: &mut Parameters, strategy: &Strategy, refund: Refund<'_>) {
    let meter = match strategy {
        Strategy::TokenBucket(bucket) => Some(bucket.meter()),
        Strategy::Gcra(gcra) => Some(gcra.meter()),
        Strategy::LeakyBucket(bucket) => Some(bucket.meter()),
        Strategy::FixedWindow(_) | Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) => None,
    };
    for Run { units, position } in refund.runs() {
        // No stored state ends later.
        let at = position.micros.min(Timestamp::MAX.as_micros());
        match meter.map(|meter| meter.span(units)) {
            Some(length) => {
                parameters.extend([length.micros, length.remainder, at, position.remainder]);
            }
            None => parameters.extend([bounded(units), at]),
        }
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
