//! Differences of two systems.

use std::fmt::Debug;

use portcullis_core::{StoreError, Timestamp};

use super::Timeline;
use crate::subject::Checked;

/// The first difference of two systems on a timeline.
#[derive(Clone, Debug, thiserror::Error)]
#[error("step {step}, at {at}: {what}\n  one:   {one}\n  other: {other}\nunder {timeline}")]
pub struct Difference {
    at: Timestamp,
    what: String,
    one: String,
    other: String,
    step: usize,
    timeline: String,
}

impl Difference {
    /// Returns both answers if both calls succeeded and the answers are equal.
    pub(super) fn expect_equal<T: PartialEq + Debug>(
        at: Timestamp,
        what: impl FnOnce() -> String,
        one: Result<T, StoreError>,
        other: Result<T, StoreError>,
    ) -> Result<(T, T), Self> {
        match (one, other) {
            (Ok(one), Ok(other)) if one == other => Ok((one, other)),
            (one, other) => {
                let (one, other) = (format!("{one:?}"), format!("{other:?}"));
                Err(Self { at, what: what(), one, other, step: 0, timeline: String::new() })
            }
        }
    }

    pub(super) fn at_step(self, timeline: &Timeline, index: usize) -> Self {
        let first = (index + 1).saturating_sub(STEPS_SHOWN);
        let steps = &timeline.steps[first..=index];
        let timeline = format!("{:#?}\nand steps from {}: {steps:#?}", timeline.models, first + 1);
        Self { step: index + 1, timeline, ..self }
    }
}

/// Removes the decisions per policy unless both systems return them.
pub(super) fn keep_common_fields(one: &mut Checked, other: &mut Checked) {
    if one.decisions.is_empty() || other.decisions.is_empty() {
        one.decisions.clear();
        other.decisions.clear();
    }
}

/// Shrunk timelines usually have fewer.
const STEPS_SHOWN: usize = 24;
