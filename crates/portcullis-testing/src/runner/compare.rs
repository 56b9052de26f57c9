//! What was expected against what was answered, one field after another.

use std::fmt::Display;
use std::time::Duration;

use portcullis_core::{Decision, Retry, Timestamp, Verdict};

use super::Failure;
use crate::scenario::{Case, Expected, Step};

/// The first field that differs.
#[derive(Debug)]
pub(super) struct Mismatch {
    field: &'static str,
    expected: String,
    got: String,
}

impl Mismatch {
    pub(super) fn new(field: &'static str, expected: impl Display, got: impl Display) -> Self {
        Self { field, expected: expected.to_string(), got: got.to_string() }
    }

    pub(super) fn at(self, case: &Case, number: usize, step: &Step) -> Failure {
        Failure {
            file: case.file().to_owned(),
            line: step.line,
            case: case.name().to_owned(),
            step: number,
            field: self.field,
            expected: self.expected,
            got: self.got,
        }
    }
}

pub(super) fn verdict(allow: bool, decision: &Decision) -> Result<(), Mismatch> {
    if allow == decision.is_allowed() {
        return Ok(());
    }
    let got = match decision.verdict() {
        Verdict::Allow { .. } => "true".to_owned(),
        Verdict::Deny(retry) => format!("false, retry_after {}", wait(retry)),
    };
    let left = decision.remaining();
    Err(Mismatch::new("allow", allow, format!("{got}, remaining {left}, decided_by {}", decision.policy())))
}

impl Expected {
    pub(super) fn compare(&self, at: Timestamp, decision: &Decision) -> Result<(), Mismatch> {
        same("at", Some(at), decision.at())?;
        same("degraded", Some(false), decision.is_degraded())?;
        same("decided_by", self.decided_by.as_deref(), decision.policy().as_str())?;
        same("limit", self.limit, decision.limit())?;
        same("remaining", self.remaining, decision.remaining())?;
        if let Some(expected) = self.retry_after
            && decision.retry() != Some(expected)
        {
            let got = decision.retry().map_or_else(|| "none: it is allowed".to_owned(), wait);
            return Err(Mismatch::new("retry_after", wait(expected), got));
        }
        same("reset_after", self.reset_after.map(Written), Written(decision.reset_after()))?;
        same("next_after", self.next_after.map(Written), Written(decision.next_after()))?;
        same("delay", self.delay.map(Written), Written(decision.delay()))
    }

    pub(super) fn compare_uncharged(&self, uncharged: u32) -> Result<(), Mismatch> {
        same("uncharged", self.uncharged, uncharged)
    }
}

fn same<T: PartialEq + Display>(field: &'static str, expected: Option<T>, got: T) -> Result<(), Mismatch> {
    match expected {
        Some(expected) if expected != got => Err(Mismatch::new(field, expected, got)),
        _ => Ok(()),
    }
}

/// A duration as it is written in a scenario.
#[derive(PartialEq, Eq)]
struct Written(Duration);

impl Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

fn wait(retry: Retry) -> String {
    match retry {
        Retry::After(wait) => Written(wait).to_string(),
        Retry::Never => "never".to_owned(),
    }
}
