//! The tables of windows, made from time zone data.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jiff::ToSpan as _;
use jiff::civil::{Date, date};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use portcullis_core::{Timestamp, WindowTable};

use super::{Calendar, CalendarError, Rule, Weekday, time_zone_data_version};

/// The table of a calendar in a zone, made at most once.
pub(super) fn table(calendar: Calendar, zone: &str) -> Result<&'static WindowTable, CalendarError> {
    let unknown = || CalendarError::UnknownZone { zone: zone.to_owned() };
    let zone = DATA.get(zone).ok().filter(|zone| !zone.is_unknown()).ok_or_else(unknown)?;
    let name = format!("{calendar} in {}", zone.iana_name().ok_or_else(unknown)?);
    // The map is consistent between any two statements, so a poisoned lock is safe to use.
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = tables.get(&*name) {
        return Ok(table);
    }
    if tables.len() >= MAX {
        return Err(CalendarError::TooManyTables);
    }
    let table = match calendar.rule {
        Rule::Hours => hours(&zone, name.leak(), tables.values()),
        _ => made(calendar, &zone, name.leak()),
    };
    let table: &WindowTable = Box::leak(Box::new(table));
    tables.insert(table.name(), table);
    Ok(table)
}

fn made(calendar: Calendar, zone: &TimeZone, name: &'static str) -> WindowTable {
    let starts = days(calendar).map(|day| start_of(day, zone));
    // The first windows of a zone ahead of UTC begin before the epoch.
    let mut starts = (1..).zip(starts).filter_map(|(number, start)| Some((number, start?))).peekable();
    let first = starts.peek().map_or(1, |(number, _)| *number);
    let mut starts: Vec<Timestamp> = starts.map(|(_, start)| start).collect();
    // A day that a zone skips begins, and ends, with the next one.
    starts.dedup();
    let table = WindowTable::new(name, first, starts.leak());
    table.expect("the starts of days ascend").made_from(time_zone_data_version())
}

/// The hours of a zone. Their starts are those of another zone if these are the same: they take 10 MB.
fn hours<'t>(
    zone: &TimeZone,
    name: &'static str,
    known: impl Iterator<Item = &'t &'static WindowTable>,
) -> WindowTable {
    let starts = full_hours(zone);
    // Also where hours have been longer or shorter, most are of one length.
    let first = starts.first().map_or(1, |first| first.as_micros() / HOUR + 1);
    let same = known.map(|table| table.starts()).find(|other| **other == *starts);
    let table = WindowTable::new(name, first, same.unwrap_or_else(|| starts.leak()));
    table.expect("the starts of hours ascend").made_from(time_zone_data_version())
}

/// The instants at which the clocks of a zone show a full hour.
fn full_hours(zone: &TimeZone) -> Vec<Timestamp> {
    let last = LAST_DAY.to_zoned(TimeZone::UTC).expect("the year 2113 is in range").timestamp();
    let mut changes = zone.following(jiff::Timestamp::UNIX_EPOCH).map(|change| change.timestamp());
    let (mut starts, mut from) = (Vec::new(), jiff::Timestamp::UNIX_EPOCH);
    while from < last {
        let until = changes.next().unwrap_or(last).min(last);
        let offset = i64::from(zone.to_offset(from).seconds()) * 1_000_000;
        let hour = HOUR.cast_signed();
        let shown = (from.as_microsecond() + offset).rem_euclid(hour);
        let first = from.as_microsecond() + (hour - shown) % hour;
        let full = (first..until.as_microsecond()).step_by(usize::try_from(HOUR).unwrap_or(usize::MAX));
        starts.extend(full.filter_map(|micros| u64::try_from(micros).ok()).map(Timestamp::from_micros));
        from = until;
    }
    starts
}

/// The days on which windows begin. The first one, which has the number 1, is in January 1970 whatever the time zone.
fn days(calendar: Calendar) -> Box<dyn Iterator<Item = Date>> {
    let month = move |index: i16| FIRST_DAY.checked_add(i32::from(index).months()).ok();
    let months = (0_i16..).map_while(month).take_while(|day| *day <= LAST_DAY);
    match calendar.rule {
        Rule::MonthsFromDay(number) => Box::new(months.map(move |first| {
            first.with().day(i8::try_from(number).unwrap_or(1)).build().expect("every month has 28 days")
        })),
        Rule::MonthsFromLastDay => Box::new(months.map(Date::last_of_month)),
        Rule::WeeksFrom(weekday) => {
            let first = FIRST_DAY.series(1.day()).find(|day| day.weekday() == weekday.into());
            let first = first.expect("a week has every day");
            Box::new(first.series(1.week()).take_while(|day| *day <= LAST_DAY))
        }
        // Those of hours are instants.
        Rule::Days | Rule::Hours => Box::new(FIRST_DAY.series(1.day()).take_while(|day| *day <= LAST_DAY)),
    }
}

/// The first instant of a day; `None` if it is before the Unix epoch.
fn start_of(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let midnight = day.to_datetime(jiff::civil::Time::midnight());
    let start = match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(midnight),
        // Clocks are set back over midnight or from it: it comes twice.
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(midnight),
        // Clocks are set forward over midnight, perhaps by a whole day: the first instant is that at which they are.
        AmbiguousOffset::Gap { after, .. } => after.to_timestamp(midnight).map(|before_the_gap| {
            let mut transitions = zone.following(before_the_gap);
            transitions.next().map_or(before_the_gap, |transition| transition.timestamp())
        }),
    };
    let micros = start.expect("the years 1970 to 2113 are in range").as_microsecond();
    u64::try_from(micros).ok().map(Timestamp::from_micros)
}

impl From<Weekday> for jiff::civil::Weekday {
    fn from(day: Weekday) -> Self {
        Self::from_monday_zero_offset(day as i8).expect("a week has seven days")
    }
}

/// The bundled data alone, so that the data of a build does not depend on the machine.
static DATA: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
/// By name.
static TABLES: LazyLock<Mutex<HashMap<&'static str, &'static WindowTable>>> = LazyLock::new(Mutex::default);
pub(super) const MAX: usize = 256;
/// In microseconds.
const HOUR: u64 = 3_600_000_000;
const FIRST_DAY: Date = date(1970, 1, 1);
/// Redis keeps no state that ends after 2112.
const LAST_DAY: Date = date(2113, 1, 31);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: u64 = 60;

    fn at(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_micros(u64::try_from(instant.as_microsecond()).unwrap())
    }

    /// The window in which an instant is: its start, and its length in minutes.
    fn window(calendar: Calendar, zone: &str, now: &str) -> (Timestamp, u64) {
        let table = table(calendar, zone).unwrap();
        let window = table.window(table.number_at(at(now)));
        (window.start, window.end.saturating_since(window.start).as_secs() / MINUTE)
    }

    #[test]
    fn days_begin_at_midnight_of_their_zone() {
        for (zone, now, start, hours) in [
            ("America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23),
            ("America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", 25),
            ("America/New_York", "2026-07-01T03:59:59Z", "2026-06-30T04:00:00Z", 24),
            ("Asia/Kolkata", "2026-07-01T18:29:59Z", "2026-06-30T18:30:00Z", 24),
            // Samoa has skipped the 30th.
            ("Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", 24),
            ("Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", 24),
        ] {
            assert_eq!(window(Calendar::daily(), zone, now), (at(start), hours * MINUTE), "{zone} {now}");
        }
    }

    #[test]
    fn hours_begin_when_clocks_show_a_full_hour() {
        for (zone, now, start, minutes) in [
            ("UTC", "2026-07-01T12:59:59Z", "2026-07-01T12:00:00Z", 60),
            ("Asia/Kolkata", "2026-07-01T12:29:59Z", "2026-07-01T11:30:00Z", 60),
            ("Asia/Kathmandu", "2026-07-01T12:29:59Z", "2026-07-01T12:15:00Z", 60),
            ("Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-29T01:00:00Z", 60),
            // Its clocks move by half an hour, at 2:00 and back at 2:00.
            ("Australia/Lord_Howe", "2026-04-04T15:10:00Z", "2026-04-04T14:00:00Z", 90),
            ("Australia/Lord_Howe", "2026-10-03T15:10:00Z", "2026-10-03T14:30:00Z", 90),
        ] {
            assert_eq!(window(Calendar::hourly(), zone, now), (at(start), minutes), "{zone} {now}");
        }
        let [utc, berlin] = ["UTC", "Europe/Berlin"].map(|zone| table(Calendar::hourly(), zone).unwrap());
        assert!(std::ptr::eq(utc.starts(), berlin.starts()));
        assert_eq!((utc.first(), utc.longest()), (1, Duration::from_secs(3_600)));
    }
}
