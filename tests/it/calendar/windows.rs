//! The windows of calendars in time zones, compared with known instants, with rules of law, and with a scan of local times.

use jiff::civil::{Date, DateTime, Weekday as CivilDay};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use portcullis::Timestamp;
use portcullis::calendar::{Calendar, CalendarError, Weekday, WindowTable, time_zone_data_version, windows};
use portcullis_testing::calendars;

use super::timestamp;

/// The start of the window that an instant is in, and its end.
#[track_caller]
fn window_at(calendar: Calendar, zone: &str, instant: &str) -> [String; 2] {
    let table = calendar.in_zone(zone).unwrap();
    let now = timestamp(instant.parse().unwrap());
    let window = table.window(table.number_at(now));
    [window.start, window.end].map(|instant| to_jiff(instant).to_string())
}

fn to_jiff(instant: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(i64::try_from(instant.as_micros()).unwrap()).unwrap()
}

fn from_sunday() -> Calendar {
    Calendar::weekly_from(Weekday::Sunday)
}

#[test]
fn a_missing_midnight_is_the_first_instant_after_the_gap() {
    // In Brazil clocks went from 00:00 to 01:00 on Sunday 2018-11-04.
    let brazil = window_at(from_sunday(), "America/Sao_Paulo", "2018-11-06T00:00:00Z");
    assert_eq!(brazil, ["2018-11-04T03:00:00Z", "2018-11-11T02:00:00Z"]);
    // Likewise in Lebanon on Sunday 2024-03-31, and in Egypt on Friday 2024-04-26.
    let lebanon = window_at(from_sunday(), "Asia/Beirut", "2024-04-02T00:00:00Z");
    assert_eq!(lebanon, ["2024-03-30T22:00:00Z", "2024-04-06T21:00:00Z"]);
    let fridays = Calendar::weekly_from(Weekday::Friday);
    let egypt = window_at(fridays, "Africa/Cairo", "2024-04-27T00:00:00Z");
    assert_eq!(egypt, ["2024-04-25T22:00:00Z", "2024-05-02T21:00:00Z"]);
    // In Nuuk they went from 23:00 on Saturday 2024-03-30 to 00:00: the gap ends at midnight.
    let greenland = window_at(from_sunday(), "America/Nuuk", "2024-04-02T00:00:00Z");
    assert_eq!(greenland[0], "2024-03-31T01:00:00Z");
}

#[test]
fn an_ambiguous_midnight_is_the_first_one() {
    // In Cuba clocks went from 01:00 back to 00:00 on Sunday 2024-11-03.
    let cuba = window_at(from_sunday(), "America/Havana", "2024-11-05T00:00:00Z");
    assert_eq!(cuba, ["2024-11-03T04:00:00Z", "2024-11-10T05:00:00Z"]);
    // In Brazil they went from 00:00 on Sunday 2018-02-18 back to 23:00: there is one midnight.
    let brazil = window_at(from_sunday(), "America/Sao_Paulo", "2018-02-20T00:00:00Z");
    assert_eq!(brazil[0], "2018-02-18T03:00:00Z");
}

#[test]
fn a_day_that_is_skipped_begins_with_the_next_one() {
    // Samoa crossed the date line: there was no Friday 2011-12-30.
    let samoa = window_at(Calendar::weekly_from(Weekday::Friday), "Pacific/Apia", "2012-01-02T00:00:00Z");
    assert_eq!(samoa, ["2011-12-30T10:00:00Z", "2012-01-05T10:00:00Z"]);
    let december = window_at(Calendar::monthly(), "Pacific/Apia", "2011-12-15T00:00:00Z");
    assert_eq!(december, ["2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"]);
}

#[test]
fn months_begin_on_their_day_and_february_may_be_leap() {
    let month_end = Calendar::monthly_from_last_day();
    for (instant, start, end) in [
        ("2028-02-10T00:00:00Z", "2028-01-31T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"),
        ("2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"),
        ("2100-03-01T00:00:00Z", "2100-02-28T00:00:00Z", "2100-03-31T00:00:00Z"),
    ] {
        assert_eq!(window_at(month_end, "UTC", instant), [start, end]);
    }
    let billing = Calendar::monthly_from_day(15).unwrap();
    let billed = window_at(billing, "America/New_York", "2026-03-10T00:00:00Z");
    assert_eq!(billed, ["2026-02-15T05:00:00Z", "2026-03-15T04:00:00Z"]);
    for day in [0, 29, 30, 31, 255] {
        let error = Calendar::monthly_from_day(day).unwrap_err();
        assert_eq!(error, CalendarError::DayOutOfRange { day });
        assert!(error.to_string().contains(&format!("day {day},")) && error.to_string().contains("1 to 28"));
    }
}

#[test]
fn iso_weeks_run_over_the_end_of_a_year() {
    // Week 53 of 2026, and week 1 of 2027.
    let last = window_at(Calendar::weekly(), "UTC", "2027-01-02T00:00:00Z");
    assert_eq!(last, ["2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"]);
    let table = Calendar::weekly().in_zone("Europe/Berlin").unwrap();
    let numbers = table.starts().iter().zip(table.first()..);
    for (start, number) in numbers {
        let local = to_jiff(*start).to_zoned(zone("Europe/Berlin"));
        assert_eq!(local.weekday(), CivilDay::Monday);
        assert_eq!(table.number_at(*start), number);
    }
}

/// The law of the European Union, by counting days: an implementation without time zone data.
#[test]
fn windows_agree_with_calendars_made_by_counting_days() {
    for (calendar, zone, counted) in [
        (Calendar::monthly(), "UTC", &calendars()[0]),
        (Calendar::weekly(), "UTC", &calendars()[1]),
        (Calendar::monthly(), "Europe/Berlin", &calendars()[2]),
        (Calendar::monthly(), "Europe/Paris", &calendars()[2]),
    ] {
        let table = calendar.in_zone(zone).unwrap();
        let since = timestamp("1997-01-15T00:00:00Z".parse().unwrap());
        let first = counted.number_at(since);
        let last = counted.number_at(timestamp("2112-12-31T00:00:00Z".parse().unwrap()));
        assert_eq!(table.number_at(since), first, "{zone}");
        for number in first..last {
            assert_eq!(table.window(number), counted.window(number), "{calendar} in {zone}");
        }
    }
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// A start is the first instant at which local time is not before midnight of its day, by looking at local times alone.
#[test]
fn starts_are_where_a_scan_of_local_times_finds_them() {
    let zones = [
        "America/Sao_Paulo",
        "Asia/Beirut",
        "Africa/Cairo",
        "America/Havana",
        "Pacific/Apia",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/St_Johns",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "America/Scoresbysund",
    ];
    for name in zones {
        let zone = zone(name);
        for (calendar, is_start) in [
            (Calendar::monthly(), (|day| day.day() == 1) as fn(Date) -> bool),
            (Calendar::monthly_from_last_day(), |day| day == day.last_of_month()),
            (from_sunday(), |day| day.weekday() == CivilDay::Sunday),
        ] {
            let table = calendar.in_zone(name).unwrap();
            let mut day: Date = "1990-01-01".parse().unwrap();
            while day.year() < 2040 {
                if is_start(day) {
                    assert_starts(table, &zone, day);
                }
                day = day.tomorrow().unwrap();
            }
        }
    }
}

/// Scans quarters of an hour around midnight in UTC, then minutes, then seconds.
fn assert_starts(table: &WindowTable, zone: &TimeZone, day: Date) {
    let midnight = day.at(0, 0, 0, 0);
    let utc = midnight.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
    let local = |second: i64| -> DateTime { zone.to_datetime(jiff::Timestamp::from_second(second).unwrap()) };
    let has_begun = |second: &i64| local(*second) >= midnight;
    let quarter = (utc - 16 * HOUR..).step_by(900).find(has_begun).unwrap();
    let minute = (quarter - 900..=quarter).step_by(60).find(has_begun).unwrap();
    let start = (minute - 60..=minute).find(has_begun).unwrap();
    let start = timestamp(jiff::Timestamp::from_second(start).unwrap());
    let number = table.number_at(start);
    assert_eq!(table.window(number).start, start, "{} on {day}", table.name());
}

const HOUR: i64 = 3_600;

#[test]
fn zones_are_found_in_any_case_and_made_once() {
    let table = Calendar::monthly().in_zone("Europe/Berlin").unwrap();
    assert!(std::ptr::eq(table, Calendar::monthly().in_zone("europe/BERLIN").unwrap()));
    assert_eq!(table.name(), "months in Europe/Berlin");
    assert_eq!(table.data_version(), Some(time_zone_data_version()));
    assert_eq!(table.longest().as_secs(), 31 * 86_400 + 3_600);
    for unknown in ["", "Berlin", "Europe/Berlni", "Etc/Unknown", "../etc/passwd", &"x".repeat(1_000)] {
        let error = Calendar::monthly().in_zone(unknown).unwrap_err();
        assert_eq!(error, CalendarError::UnknownZone { zone: unknown.to_owned() });
        let text = error.to_string();
        assert!(text.len() < 250 && text.contains("such as Europe/Berlin"), "{text}");
    }
}

#[test]
fn a_month_has_one_number_in_every_zone() {
    let now = timestamp("2026-07-15T12:00:00Z".parse().unwrap());
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Africa/Monrovia"] {
        for (calendar, number) in [(Calendar::monthly(), 56 * 12 + 7), (Calendar::weekly(), 2_950)] {
            assert_eq!(calendar.in_zone(zone).unwrap().number_at(now), number, "{zone}");
        }
    }
}

#[test]
fn descriptions_are_read_as_they_are_printed() {
    for text in [
        "months in UTC",
        "months from day 28 in Asia/Tokyo",
        "months from the last day in America/New_York",
        "weeks in UTC",
        "weeks from Sunday in Asia/Kolkata",
        "days in America/New_York",
        "hours in Asia/Kolkata",
    ] {
        assert_eq!(windows(text).unwrap().name(), text);
    }
    for (text, error) in [
        ("months", "`months` are no windows"),
        ("months from day 29 in UTC", "day 29, which not every month has"),
        ("months from day x in UTC", "are no windows"),
        ("weeks from sunday in UTC", "are no windows"),
        ("weeks in Utopia", "no zone `Utopia`"),
    ] {
        let message = windows(text).unwrap_err().to_string();
        assert!(message.contains(error), "{text}: {message}");
    }
}
