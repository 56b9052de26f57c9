//! When a region buys units of the home store, and how many. Without I/O and without a clock: all inputs are arguments.

use core::time::Duration;

/// What a process knows of one key in its region, from the last decision about it.
///
/// ```
/// use portcullis::regions::purchase::Demand;
///
/// // 70 of the 100 units of the region's share are used, and this process has charged 40 of them.
/// let demand = Demand { share: 100, remaining: 30, held: 40, home: None };
/// assert!(demand.is_watched());
/// assert_eq!(demand.units(), 40);
///
/// // At most half of what home has left: other regions buy as well.
/// assert_eq!(Demand { home: Some(22), ..demand }.units(), 11);
/// assert_eq!(Demand { home: Some(0), ..demand }.units(), 0);
///
/// // Nothing is bought while half of the share is left.
/// assert_eq!(Demand { remaining: 60, ..demand }.units(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: callers build it.
pub struct Demand {
    /// The burst, or the limit, of the region's share.
    pub share: u64,
    /// The units of the share that are left.
    pub remaining: u64,
    /// The units that this process has charged in its region and that it can still have credited.
    pub held: u64,
    /// The units that home has left, if that is known.
    pub home: Option<u64>,
}

impl Demand {
    /// The used part of a share, in percent, from which on a process keeps what it has charged.
    pub const WATCHED_PERCENT: u64 = 25;

    /// The used part of a share, in percent, from which on units are bought.
    pub const BUYING_PERCENT: u64 = 50;

    /// The part of a share that a purchase has at least while the share is not used up: one of this number. It keeps calls few.
    pub const LEAST_PART: u64 = 8;

    /// Whether the key is used enough for its charges to be kept.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.is_used(Self::WATCHED_PERCENT)
    }

    /// The units to buy now; 0 for none.
    ///
    /// They replace units that the region has charged, so they are at most those that are used and held: when they are credited, as
    /// much of the share is free again.
    #[must_use]
    pub const fn units(&self) -> u64 {
        if !self.is_used(Self::BUYING_PERCENT) {
            return 0;
        }
        let wanted = least(self.used(), self.held);
        let units = match self.home {
            Some(home) => least(wanted, if home > 1 { home / 2 } else { home }),
            None => wanted,
        };
        // A few units are worth a call only if there is nothing else, or if home has no more.
        let is_worth_it = self.remaining == 0 || wanted >= self.share.div_ceil(Self::LEAST_PART);
        if is_worth_it { units } else { 0 }
    }

    const fn used(&self) -> u64 {
        self.share.saturating_sub(self.remaining)
    }

    const fn is_used(&self, percent: u64) -> bool {
        self.used() > 0 && self.used() as u128 * 100 >= self.share as u128 * percent as u128
    }
}

/// How long nothing is bought of a key after home has denied a purchase: until home has the units again, within
/// [`SHORTEST_PAUSE`] and [`LONGEST_PAUSE`]. `retry_after` is `None` if home does not know.
#[must_use]
pub fn pause_after_denial(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(LONGEST_PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// How long nothing is bought of a key after this number of failures in a row: twice as long each time, within
/// [`SHORTEST_PAUSE`] and [`LONGEST_PAUSE`]. A failure is a purchase whose fate is not known, or that home has not answered.
#[must_use]
pub fn pause_after_failure(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    SHORTEST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

/// The shortest pause of a key after a purchase that has brought nothing.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause of a key after a purchase that has brought nothing, and how long it is believed what home has reported as left.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const fn least(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Demand = Demand { share: 80, remaining: 40, held: 40, home: None };

    #[test]
    fn nothing_is_bought_for_a_key_without_demand() {
        let idle = Demand { share: 80, remaining: 80, held: 0, home: Some(900) };
        assert_eq!((idle.is_watched(), idle.units()), (false, 0));
        let watched = Demand { remaining: 60, held: 20, ..idle };
        assert_eq!((watched.is_watched(), watched.units()), (true, 0));
        assert_eq!(Demand { share: 0, remaining: 0, held: 9, home: None }.units(), 0);
    }

    #[test]
    fn at_most_what_is_used_and_held_is_bought() {
        assert_eq!(HALF.units(), 40);
        assert_eq!(Demand { held: 400, ..HALF }.units(), 40);
        assert_eq!(Demand { held: 12, ..HALF }.units(), 12);
    }

    #[test]
    fn few_units_are_bought_of_used_up_shares() {
        assert_eq!(Demand { held: 9, ..HALF }.units(), 0);
        assert_eq!(Demand { held: 9, remaining: 0, ..HALF }.units(), 9);
    }

    #[test]
    fn last_units_of_home_are_bought_one_by_one() {
        let bought = [40, 7, 3, 2, 1, 0].map(|home| Demand { home: Some(home), ..HALF }.units());
        assert_eq!(bought, [20, 3, 1, 1, 1, 0]);
    }

    #[test]
    fn pauses_have_bounds() {
        assert_eq!(pause_after_denial(Some(Duration::ZERO)), SHORTEST_PAUSE);
        assert_eq!(pause_after_denial(Some(Duration::from_millis(300))), Duration::from_millis(300));
        assert_eq!(pause_after_denial(None), LONGEST_PAUSE);
        assert_eq!(pause_after_failure(1), SHORTEST_PAUSE);
        assert_eq!(pause_after_failure(3), SHORTEST_PAUSE * 4);
        assert_eq!(pause_after_failure(u32::MAX), LONGEST_PAUSE);
    }
}
