//! The shapes of the file.

use std::time::Duration;

use indexmap::IndexMap;
use portcullis_core::{Anchor, FixedWindow, Gcra, Quota, QuotaError, Strategy};
use serde::Deserialize;
use toml::Spanned;

use super::values::{Instant, Micros, Wait};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    #[serde(default)]
    pub(super) case: Vec<Spanned<RawCase>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCase {
    pub(super) name: String,
    pub(super) policy: Option<RawStrategy>,
    pub(super) policies: Option<IndexMap<String, RawStrategy>>,
    pub(super) start: Option<Instant>,
    pub(super) steps: Vec<Spanned<RawStep>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) at: Option<Micros>,
    pub(super) op: Option<Op>,
    pub(super) key: Option<String>,
    pub(super) cost: Option<Cost>,
    pub(super) step: Option<usize>,
    pub(super) policy: Option<String>,
    pub(super) to: Option<RawStrategy>,
    pub(super) allow: Option<bool>,
    pub(super) limit: Option<u32>,
    pub(super) remaining: Option<u32>,
    pub(super) retry_after: Option<Wait>,
    pub(super) reset_after: Option<Micros>,
    pub(super) next_after: Option<Micros>,
    pub(super) delay: Option<Micros>,
    pub(super) decided_by: Option<String>,
    pub(super) uncharged: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Refund,
    Settle,
    Reset,
    SetQuota,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a cost is a number from 0 to 4294967295, or one for each policy by its name")]
pub(super) enum Cost {
    OfAll(u32),
    Each(IndexMap<String, u32>),
}

/// A strategy, and the period that it was written with.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Parameters")]
pub(super) struct RawStrategy {
    pub(super) strategy: Strategy,
    pub(super) period: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
enum Parameters {
    Gcra {
        limit: u32,
        period: Micros,
        burst: Option<u32>,
    },
    FixedWindow {
        limit: u32,
        period: Micros,
        #[serde(default)]
        anchor: RawAnchor,
    },
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
        let (strategy, period) = match parameters {
            Parameters::Gcra { limit, period: Micros(period), burst } => {
                let quota = Quota::new(limit, period)?;
                let quota = burst.map_or(Ok(quota), |burst| quota.try_burst(burst))?;
                (Strategy::Gcra(Gcra::new(quota)?), period)
            }
            Parameters::FixedWindow { limit, period: Micros(period), anchor: RawAnchor(anchor) } => (
                Strategy::FixedWindow(FixedWindow::new(Quota::new(limit, period)?)?.anchored(anchor)),
                period,
            ),
        };
        Ok(Self { strategy, period })
    }
}
