//! The types that a scenario file is deserialized into.

use indexmap::IndexMap;
use portcullis_core::Quota;
use serde::Deserialize;
use toml::Spanned;

use super::strategy::RawStrategy;
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
    pub(super) step: Option<Steps>,
    pub(super) if_newest: Option<bool>,
    pub(super) policy: Option<String>,
    pub(super) to: Option<RawStrategy>,
    pub(super) quota: Option<Quota>,
    #[serde(rename = "for")]
    pub(super) length: Option<Micros>,
    pub(super) count: Option<u32>,
    pub(super) lock_out: Option<RawLockOut>,
    pub(super) blocked_for: Option<Micros>,
    pub(super) allow: Option<bool>,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after: Option<Wait>,
    pub(super) reset_after: Option<Micros>,
    pub(super) next_after: Option<Micros>,
    pub(super) delay: Option<Micros>,
    pub(super) decided_by: Option<String>,
    pub(super) blocked: Option<bool>,
    pub(super) uncharged: Option<u64>,
    pub(super) held: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Refund,
    Settle,
    Renew,
    Reset,
    SetQuota,
    Grant,
    Block,
    Unblock,
    Denials,
}

/// Numbers of steps, counted from 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "`step` is the number of a step, or a list of such numbers")]
pub(super) enum Steps {
    One(usize),
    Several(Vec<usize>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a cost is a whole number of units, or one for each policy by its name")]
pub(super) enum Cost {
    Uniform(u64),
    PerPolicy(IndexMap<String, u64>),
}

/// When a step of denials blocks the key.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLockOut {
    pub(super) after: u32,
    pub(super) within: Micros,
    pub(super) block: Micros,
    pub(super) longest: Option<Micros>,
}
