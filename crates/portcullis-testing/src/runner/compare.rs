//! Compares expected decisions with actual ones, field by field.

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

    pub(super) fn into_failure(self, case: &Case, number: usize, step: &Step) -> Failure {
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

/// Compares the length of the block that denials have begun.
pub(super) fn block(expected: Option<Duration>, got: Option<Duration>) -> Result<(), Mismatch> {
    let text = |length: Option<Duration>| {
        length.map_or_else(|| "no block".to_owned(), |length| HumanDuration(length).to_string())
    };
    if expected == got { Ok(()) } else { Err(Mismatch::new("blocked_for", text(expected), text(got))) }
}

impl Expected {
    pub(super) fn compare(&self, at: Timestamp, decision: &Decision) -> Result<(), Mismatch> {
        compare_field("at", Some(at), decision.at())?;
        compare_field("degraded", Some(false), decision.is_degraded())?;
        compare_field("decided_by", self.decided_by.as_deref(), decision.policy().as_str())?;
        compare_field("limit", self.limit, decision.limit())?;
        compare_field("remaining", self.remaining, decision.remaining())?;
        if let Some(expected) = self.retry_after
            && decision.retry() != Some(expected)
        {
            let got = decision.retry().map_or_else(|| "none: it is allowed".to_owned(), wait);
            return Err(Mismatch::new("retry_after", wait(expected), got));
        }
        for (field, expected, got) in [
            ("reset_after", self.reset_after, decision.reset_after()),
            ("next_after", self.next_after, decision.next_after()),
            ("delay", self.delay, decision.delay()),
        ] {
            compare_field(field, expected.map(HumanDuration), HumanDuration(got))?;
        }
        compare_field("blocked", self.blocked, decision.is_blocked())
    }
}

pub(super) fn compare_field<T: PartialEq + Display>(
    field: &'static str,
    expected: Option<T>,
    got: T,
) -> Result<(), Mismatch> {
    match expected {
        Some(expected) if expected != got => Err(Mismatch::new(field, expected, got)),
        _ => Ok(()),
    }
}

/// A duration in the format of scenarios.
#[derive(PartialEq, Eq)]
struct HumanDuration(Duration);

impl Display for HumanDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

fn wait(retry: Retry) -> String {
    match retry {
        Retry::After(wait) => HumanDuration(wait).to_string(),
        Retry::Unknown => "unknown".to_owned(),
        Retry::Never => "never".to_owned(),
    }
}
