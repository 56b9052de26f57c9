//! Policies with calendar windows.

use super::{Policy, PolicyError};
use crate::{CalendarWindow, Strategy, WindowTable};

impl Policy {
    /// A count per window of a calendar, such as a month. See [`CalendarWindow`].
    ///
    /// # Panics
    ///
    /// If the name or the limit is invalid for [`Policy::try_calendar_window`].
    #[track_caller]
    pub const fn calendar_window(name: &'static str, limit: u64, table: &'static WindowTable) -> Self {
        match CalendarWindow::new(limit, table) {
            Ok(window) => Self::literal(name, Strategy::CalendarWindow(window)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::calendar_window`], for values that are not constants.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the limit is zero or more than
    /// [`Quota::MAX_UNITS`](crate::Quota::MAX_UNITS).
    pub fn try_calendar_window(
        name: &str,
        limit: u64,
        table: &'static WindowTable,
    ) -> Result<Self, PolicyError> {
        Self::named(name, CalendarWindow::new(limit, table).map(Strategy::CalendarWindow))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;
    use crate::{FailureMode, Timestamp};

    static STARTS: [Timestamp; 2] = [Timestamp::from_micros(100), Timestamp::from_micros(200)];
    static TABLE: WindowTable = match WindowTable::new("test", 1, &STARTS) {
        Ok(table) => table,
        Err(_) => panic!("the starts ascend"),
    };
    const POLICY: Policy =
        Policy::calendar_window("monthly", 10, &TABLE).on_store_failure(FailureMode::local(4));

    #[test]
    fn a_limit_out_of_range_names_the_policy() {
        assert_eq!(Policy::try_calendar_window("monthly", 10, &TABLE).unwrap().strategy(), POLICY.strategy());
        for (limit, why) in [(0, "zero units"), (u64::MAX, "18446744073709551615 units")] {
            let error = Policy::try_calendar_window("monthly", limit, &TABLE).unwrap_err().to_string();
            assert!(error.contains("monthly") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_each_window_and_has_a_unit() {
        let share = POLICY.share().unwrap();
        assert_eq!((share.strategy().limit(), share.strategy().window()), (2, POLICY.strategy().window()));
        let error = POLICY.clone().try_on_store_failure(FailureMode::local(11)).unwrap_err().to_string();
        assert!(error.contains("11 instances") && error.contains("10 units"), "{error}");
    }

    #[test]
    fn calendar_windows_are_not_leasable() {
        let error = POLICY.clone().try_lease(1).unwrap_err().to_string();
        assert!(error.contains("monthly") && error.contains("calendar_window"), "{error}");
    }
}
