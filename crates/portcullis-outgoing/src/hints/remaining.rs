//! Pairs of headers with the units that remain and their reset.

use std::time::SystemTime;

use http::HeaderMap;

use super::settings::RemainingHeaders;
use super::values::{MAX_VALUES, values};
use super::{Hint, Invalid, number, time};

/// Which budgets an answer may be about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Budgets {
    /// Those of which nothing remains.
    Exhausted,
    /// Those as well that do not state what remains.
    NotLeft,
    /// All.
    All,
}

/// The longest time until a reset. If the headers have several values, the first reset belongs to the first number of units, and so on.
pub(super) fn reset(
    names: &RemainingHeaders,
    budgets: Budgets,
    headers: &HeaderMap,
    now: &impl Fn() -> SystemTime,
) -> Hint {
    let (mut remaining, mut resets) = (values(headers, &names.remaining), values(headers, &names.reset));
    let mut longest = None;
    for index in 0.. {
        let (units, reset) = match (remaining.next(), resets.next()) {
            (None, None) => break,
            (units, reset) => (units.filter(|_| budgets != Budgets::All), reset),
        };
        let units = units.map(|units| {
            let units = number::parse(units, number::SECOND).filter(|_| index < MAX_VALUES);
            units.ok_or_else(|| Invalid::of(&names.remaining))
        });
        let counts = units.transpose()?.map_or(budgets != Budgets::Exhausted, |units| units.is_zero());
        if let (Some(reset), true) = (reset, counts) {
            let length = time::read(reset, names.format, headers, now).filter(|_| index < MAX_VALUES);
            longest = longest.max(Some(length.ok_or_else(|| Invalid::of(&names.reset))?));
        }
    }
    Ok(longest)
}
