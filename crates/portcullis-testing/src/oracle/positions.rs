//! Converts positions of charges between the format of `portcullis-core` and fractions of a microsecond.

use portcullis_core::store::Position;

use super::Model;
use super::outflow::greatest_common_divisor;

/// Counts time in units of `1/limit` microseconds since the epoch, in which one unit of the quota takes `period`.
///
/// The core format is whole microseconds and a remainder over the denominator of the rate in lowest terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positions {
    limit: i128,
    common: i128,
}

impl Positions {
    pub(super) fn new(model: Model) -> Self {
        let (limit, period) = (i128::from(model.quota.limit()), i128::from(model.period()));
        Self { limit, common: greatest_common_divisor(limit, period) }
    }

    /// The position `length` after an instant.
    pub(super) fn after(self, micros: u64, length: i128) -> Position {
        let number =
            |value: i128| u64::try_from(value).expect("positions are within the range of timestamps");
        Position {
            micros: micros + number(length / self.limit),
            remainder: number(length % self.limit / self.common),
        }
    }

    /// The distance from an instant to a position; negative if the position is earlier.
    pub(super) fn ahead(self, position: Position, micros: u64) -> i128 {
        let whole = i128::from(position.micros) - i128::from(micros);
        whole * self.limit + i128::from(position.remainder) * self.common
    }
}
