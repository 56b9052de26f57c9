//! Calendars for timelines and scenarios, made by counting days.

use std::sync::LazyLock;

use portcullis_core::{Timestamp, WindowTable};

/// The calendars that timelines use, and that scenarios name:
///
/// - `months in UTC`;
/// - `weeks in UTC`, which begin on Mondays;
/// - `months in Central Europe`, by the rule that the European Union has had since 1996, before that year as well.
///
/// They need no time zone data, and cover the years from 1970 to 2112. A month has the same number in both time zones, as under two
/// versions of time zone data.
///
/// ```
/// use portcullis_testing::calendars;
///
/// let names: Vec<_> = calendars().iter().map(|table| table.name()).collect();
/// assert_eq!(names, ["months in UTC", "weeks in UTC", "months in Central Europe"]);
/// ```
pub fn calendars() -> &'static [WindowTable] {
    static TABLES: LazyLock<[WindowTable; 3]> = LazyLock::new(|| {
        let months: Vec<u64> = months().collect();
        let weeks = (FIRST_MONDAY..*months.last().expect("there are months")).step_by(7);
        let local = months.iter().filter_map(|day| (day * DAY).checked_sub(offset(&months, *day)));
        [
            table("months in UTC", 1, months.iter().map(|day| day * DAY)),
            table("weeks in UTC", 1, weeks.map(|day| day * DAY)),
            table("months in Central Europe", 2, local),
        ]
    });
    &*TABLES
}

/// The calendar of this name. `months in UTC by other data` are those of Central Europe under the name `months in UTC`, as if they were from
/// another version of the time zone data: the two share their states.
pub(crate) fn named(name: &str) -> Result<&'static WindowTable, String> {
    static OTHER_DATA: LazyLock<WindowTable> = LazyLock::new(|| {
        let [utc, .., local] = calendars() else { unreachable!("there are three") };
        WindowTable::new(utc.name(), local.first(), local.starts()).expect("the starts ascend")
    });
    if name == "months in UTC by other data" {
        return Ok(&OTHER_DATA);
    }
    let found = calendars().iter().find(|table| table.name() == name);
    found.ok_or_else(|| {
        let known: Vec<_> = calendars().iter().map(|table| format!("`{}`", table.name())).collect();
        format!("unknown windows {name:?}, expected one of {}", known.join(", "))
    })
}

fn table(name: &'static str, first: u64, starts: impl Iterator<Item = u64>) -> WindowTable {
    let starts: Vec<_> = starts.map(Timestamp::from_micros).collect();
    WindowTable::new(name, first, starts.leak()).expect("the starts ascend")
}

/// The first days of the months from January 1970 to January 2113, as days since the Unix epoch.
fn months() -> impl Iterator<Item = u64> {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = (1_970..=2_112).flat_map(move |year| {
        let february = if is_leap(year) { 29 } else { 28 };
        [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    });
    std::iter::once(0).chain(lengths.scan(0, |day, length| {
        *day += length;
        Some(*day)
    }))
}

/// By how much Central Europe is ahead of UTC at midnight on the first day of a month: two hours from the last Sunday of March to the
/// last Sunday of October, else one.
fn offset(months: &[u64], first_day: u64) -> u64 {
    let month = months.iter().take_while(|day| **day < first_day).count() % 12;
    let is_summer = (3..=9).contains(&month);
    if is_summer { 2 * HOUR } else { HOUR }
}

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;
/// 1970-01-05, in days since the Unix epoch.
const FIRST_MONDAY: u64 = 4;
