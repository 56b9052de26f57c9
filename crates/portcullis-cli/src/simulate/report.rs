//! Reports of a simulation.

mod chart;
mod csv;
mod html;
mod json;
mod table;

use super::counts::Counts;
use super::suggest::{self, Suggestion, Target};
use crate::calendar;

pub(super) use crate::table::Table;

/// What a simulation has shown. Each form of it has a method and a file of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    pub(super) counts: &'a Counts,
    /// With what they may reject.
    pub(super) suggestions: Option<&'a (Target, Vec<Suggestion>)>,
    /// How many callers are shown.
    pub(super) top: usize,
}

/// A share in percent, with a digit more than it needs.
pub(super) fn percent(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
    let share = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    format!("{share:.2} %")
}

#[cfg(test)]
mod tests;
