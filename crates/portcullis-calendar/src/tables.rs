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
    let table: &WindowTable = Box::leak(Box::new(made(calendar, &zone, name.leak())));
    tables.insert(table.name(), table);
    Ok(table)
}

fn made(calendar: Calendar, zone: &TimeZone, name: &'static str) -> WindowTable {
    let starts = days(calendar).map(|day| start_of(day, zone));
    // The first windows of a zone ahead of UTC begin before the epoch.
    let mut starts = (1..).zip(starts).filter_map(|(number, start)| Some((number, start?))).peekable();
    let first = starts.peek().map_or(1, |(number, _)| *number);
    let starts: Vec<Timestamp> = starts.map(|(_, start)| start).collect();
    let table = WindowTable::new(name, first, starts.leak());
    table.expect("the starts of days ascend").made_from(time_zone_data_version())
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
const FIRST_DAY: Date = date(1970, 1, 1);
/// Redis keeps no state that ends after 2112.
const LAST_DAY: Date = date(2113, 1, 31);
