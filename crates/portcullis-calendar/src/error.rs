//! Why there are no windows for a calendar.

use super::{Calendar, time_zone_data_version};

/// Why there are no windows for a calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalendarError {
    /// Months cannot begin on this day, because some do not have it.
    #[error(
        "a month cannot begin on day {day}, which not every month has: use a day from 1 to 28, or the last day"
    )]
    DayOutOfRange {
        /// The day.
        day: u8,
    },
    /// The bundled time zone data does not have this zone.
    #[error(
        "the bundled time zone data (version {}) has no zone `{}`: use a name of the IANA database, such as Europe/Berlin",
        time_zone_data_version(),
        start_of(zone)
    )]
    UnknownZone {
        /// The name.
        zone: String,
    },
    /// A text does not describe windows.
    #[error(
        "`{}` are no windows: write, for example, `months in UTC`, `months from day 15 in Europe/Berlin`, \
         `months from the last day in UTC`, `weeks from Sunday in UTC`, `days in UTC` or `hours in Asia/Kolkata`",
        start_of(text)
    )]
    Malformed {
        /// The text.
        text: String,
    },
    /// The process has [`Calendar::MAX_TABLES`] other tables.
    #[error(
        "this process has windows for {} other calendars and time zones already: share them between policies",
        Calendar::MAX_TABLES
    )]
    TooManyTables,
}

/// The start of a text that is part of an error, which is one short line.
fn start_of(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}
