//! Windows as text, for configuration files.

use std::fmt;

#[cfg(feature = "serde")]
use portcullis_core::Policy;
use portcullis_core::WindowTable;

use super::{Calendar, CalendarError, Rule, Weekday};

/// The windows that a text describes: a [`Calendar`] as it prints itself, `in`, and a time zone.
///
/// ```
/// use portcullis::calendar::{Calendar, windows};
///
/// let table = windows("months from day 15 in Europe/Berlin")?;
/// assert_eq!(table, Calendar::monthly_from_day(15)?.in_zone("Europe/Berlin")?);
/// assert_eq!(table.name(), "months from day 15 in Europe/Berlin");
/// assert!(windows("fortnights in UTC").unwrap_err().to_string().contains("`weeks from Sunday in UTC`"));
/// # Ok::<(), portcullis::calendar::CalendarError>(())
/// ```
///
/// # Errors
///
/// If the text has another form, or an error of [`Calendar::monthly_from_day`] or [`Calendar::in_zone`].
pub fn windows(text: &str) -> Result<&'static WindowTable, CalendarError> {
    let malformed = || CalendarError::Malformed { text: text.to_owned() };
    let (calendar, zone) = text.split_once(" in ").ok_or_else(malformed)?;
    calendar_of(calendar).ok_or_else(malformed)??.in_zone(zone)
}

/// Reads a policy from any self-describing serde format, with calendar windows. For a field with
/// `#[serde(deserialize_with = "portcullis::calendar::deserialize_policy")]`.
///
/// The implementation of `Deserialize` for [`Policy`] has no time zone data, and refuses calendar windows.
///
/// ```
/// use portcullis::Policy;
/// use portcullis::calendar::{Calendar, deserialize_policy};
///
/// let text = r#"{"name":"monthly","strategy":"calendar_window","limit":10000,"windows":"months in Europe/Berlin"}"#;
/// let policy = deserialize_policy(&mut serde_json::Deserializer::from_str(text))?;
/// let months = Calendar::monthly().in_zone("Europe/Berlin")?;
/// assert_eq!(policy, Policy::calendar_window("monthly", 10_000, months));
/// assert_eq!(serde_json::to_string(&policy)?, text);
///
/// let other = text.replace("Berlin", "Utopia");
/// let error = deserialize_policy(&mut serde_json::Deserializer::from_str(&other)).unwrap_err();
/// assert!(error.to_string().contains("no zone `Europe/Utopia`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the value is not a policy; for its `windows` as [`windows`].
#[cfg(feature = "serde")]
pub fn deserialize_policy<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    Policy::deserialize_with_windows(deserializer, |text| windows(text).map_err(|error| error.to_string()))
}

/// Returns `None` for another form.
fn calendar_of(text: &str) -> Option<Result<Calendar, CalendarError>> {
    match text {
        "months" => return Some(Ok(Calendar::monthly())),
        "months from the last day" => return Some(Ok(Calendar::monthly_from_last_day())),
        "weeks" => return Some(Ok(Calendar::weekly())),
        "days" => return Some(Ok(Calendar::daily())),
        "hours" => return Some(Ok(Calendar::hourly())),
        _ => {}
    }
    if let Some(day) = text.strip_prefix("months from day ") {
        return Some(Calendar::monthly_from_day(day.parse().ok()?));
    }
    let day = text.strip_prefix("weeks from ")?;
    let (_, weekday) = WEEKDAYS.into_iter().find(|(name, _)| *name == day)?;
    Some(Ok(Calendar::weekly_from(weekday)))
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Rule::MonthsFromDay(1) => f.write_str("months"),
            Rule::MonthsFromDay(day) => write!(f, "months from day {day}"),
            Rule::MonthsFromLastDay => f.write_str("months from the last day"),
            Rule::WeeksFrom(Weekday::Monday) => f.write_str("weeks"),
            Rule::WeeksFrom(day) => write!(f, "weeks from {day:?}"),
            Rule::Days => f.write_str("days"),
            Rule::Hours => f.write_str("hours"),
        }
    }
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("Monday", Weekday::Monday),
    ("Tuesday", Weekday::Tuesday),
    ("Wednesday", Weekday::Wednesday),
    ("Thursday", Weekday::Thursday),
    ("Friday", Weekday::Friday),
    ("Saturday", Weekday::Saturday),
    ("Sunday", Weekday::Sunday),
];
