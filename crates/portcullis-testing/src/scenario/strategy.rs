//! Deserializes strategies.

use std::time::Duration;

use portcullis_core::{
    Anchor, FixedWindow, Gcra, LeakyBucket, Quota, QuotaError, Refill, SlidingLog, SlidingWindow, Strategy,
    TokenBucket,
};
use serde::Deserialize;

use super::values::{Instant, Micros};

/// A strategy and the period in the file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Parameters")]
pub(super) struct RawStrategy {
    pub(super) strategy: Strategy,
    pub(super) period: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
enum Parameters {
    TokenBucket {
        limit: u64,
        period: Micros,
        burst: Option<u64>,
        #[serde(default)]
        refill: RawRefill,
    },
    Gcra {
        limit: u64,
        period: Micros,
        burst: Option<u64>,
    },
    LeakyBucket {
        limit: u64,
        period: Micros,
        burst: Option<u64>,
    },
    FixedWindow {
        limit: u64,
        period: Micros,
        #[serde(default)]
        anchor: RawAnchor,
    },
    SlidingWindow {
        limit: u64,
        period: Micros,
        #[serde(default = "one_slot")]
        slots: u32,
    },
    SlidingLog {
        limit: u64,
        period: Micros,
    },
}

fn one_slot() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawRefill {
    #[default]
    Greedy,
    Interval,
}

impl From<RawRefill> for Refill {
    fn from(refill: RawRefill) -> Self {
        match refill {
            RawRefill::Greedy => Self::Greedy,
            RawRefill::Interval => Self::Interval,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
struct RawAnchor(Anchor);

impl TryFrom<String> for RawAnchor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let anchor = match text.as_str() {
            "epoch" => Anchor::Epoch,
            "first_request" => Anchor::FirstRequest,
            _ => match Instant::try_from(text) {
                Ok(Instant(instant)) => Anchor::Instant(instant),
                Err(error) => {
                    return Err(format!("an anchor is \"epoch\", \"first_request\" or an instant: {error}"));
                }
            },
        };
        Ok(Self(anchor))
    }
}

impl TryFrom<Parameters> for RawStrategy {
    type Error = QuotaError;

    fn try_from(parameters: Parameters) -> Result<Self, QuotaError> {
        let (strategy, Micros(period)) = match parameters {
            Parameters::TokenBucket { limit, period, burst, refill } => {
                let bucket = TokenBucket::new(quota(limit, period, burst)?)?;
                (Strategy::TokenBucket(bucket.refilled(refill.into())), period)
            }
            Parameters::Gcra { limit, period, burst } => {
                (Strategy::Gcra(Gcra::new(quota(limit, period, burst)?)?), period)
            }
            Parameters::LeakyBucket { limit, period, burst } => {
                (Strategy::LeakyBucket(LeakyBucket::new(quota(limit, period, burst)?)?), period)
            }
            Parameters::FixedWindow { limit, period, anchor: RawAnchor(anchor) } => {
                let windows = FixedWindow::new(quota(limit, period, None)?)?;
                (Strategy::FixedWindow(windows.anchored(anchor)), period)
            }
            Parameters::SlidingWindow { limit, period, slots } => {
                let window = SlidingWindow::with_slots(quota(limit, period, None)?, slots)?;
                (Strategy::SlidingWindow(window), period)
            }
            Parameters::SlidingLog { limit, period } => {
                (Strategy::SlidingLog(SlidingLog::new(quota(limit, period, None)?)?), period)
            }
        };
        Ok(Self { strategy, period })
    }
}

fn quota(limit: u64, Micros(period): Micros, burst: Option<u64>) -> Result<Quota, QuotaError> {
    let quota = Quota::new(limit, period)?;
    burst.map_or(Ok(quota), |burst| quota.try_burst(burst))
}
