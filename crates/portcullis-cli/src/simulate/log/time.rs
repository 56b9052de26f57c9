//! The times of access logs, in microseconds since the Unix epoch.

/// Reads the time of common logs: `10/Oct/2000:13:55:36 -0700`.
pub(super) fn common(text: &[u8]) -> Option<u64> {
    if text.len() != 26 || [text[2], text[6], text[11], text[14], text[17], text[20]] != *b"//:::\x20" {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&text[3..6]))? + 1;
    let days = days(digits(&text[7..11])?, u64::try_from(month).ok()?, digits(&text[0..2])?)?;
    let seconds = seconds_of_day(&text[12..14], &text[15..17], &text[18..20])?;
    finish(days, seconds, 0, offset(&text[21..])?)
}

/// Reads a number of seconds, milliseconds, microseconds or nanoseconds, by its size, or a time as in RFC 3339.
pub(super) fn any(text: &[u8]) -> Option<u64> {
    match text {
        [] => None,
        _ if text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => number(text),
        _ if text.get(2) == Some(&b'/') => common(text),
        _ => rfc3339(text),
    }
}

/// A number below 10^11 is in seconds (to the year 5138), below 10^14 in milliseconds, below 10^17 in microseconds.
fn number(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = dot.map_or((text, &[][..]), |dot| (&text[..dot], &text[dot + 1..]));
    let whole = digits(whole)?;
    let micros = micros_of_fraction(fraction)?;
    match whole {
        0..100_000_000_000 => whole.checked_mul(1_000_000)?.checked_add(micros),
        100_000_000_000..100_000_000_000_000 => whole.checked_mul(1_000)?.checked_add(micros / 1_000),
        100_000_000_000_000..100_000_000_000_000_000 => Some(whole),
        _ => Some(whole / 1_000),
    }
}

fn rfc3339(text: &[u8]) -> Option<u64> {
    let (moment, rest) = text.split_at_checked(19)?;
    if [moment[4], moment[7], moment[13], moment[16]] != *b"--::" || !matches!(moment[10], b'T' | b't' | b' ')
    {
        return None;
    }
    let days = days(digits(&moment[..4])?, digits(&moment[5..7])?, digits(&moment[8..10])?)?;
    let seconds = seconds_of_day(&moment[11..13], &moment[14..16], &moment[17..19])?;
    let (fraction, zone) = match rest {
        [b'.' | b',', rest @ ..] => {
            let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            rest.split_at(end)
        }
        _ => (&[][..], rest),
    };
    let offset = match zone {
        b"Z" | b"z" => 0,
        [sign, h1, h2, b':', m1, m2] => offset(&[*sign, *h1, *h2, *m1, *m2])?,
        zone => offset(zone)?,
    };
    finish(days, seconds, micros_of_fraction(fraction)?, offset)
}

fn finish(days: i64, seconds: i64, micros: u64, offset: i64) -> Option<u64> {
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?.checked_sub(offset)?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// The days since the Unix epoch.
fn days(year: u64, month: u64, day: u64) -> Option<i64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(days.cast_signed() - 719_468)
}

fn seconds_of_day(hours: &[u8], minutes: &[u8], seconds: &[u8]) -> Option<i64> {
    let (hours, minutes, seconds) = (digits(hours)?, digits(minutes)?, digits(seconds)?);
    // A leap second counts as the last one of its minute.
    (hours < 24 && minutes < 60 && seconds <= 60)
        .then(|| (hours * 3_600 + minutes * 60 + seconds.min(59)).cast_signed())
}

/// The seconds east of Greenwich of `+0200`.
fn offset(zone: &[u8]) -> Option<i64> {
    let [sign, hours @ ..] = zone else { return None };
    let (hours, minutes) = hours.split_at_checked(2)?;
    if minutes.len() != 2 {
        return None;
    }
    let seconds = (digits(hours)? * 3_600 + digits(minutes)? * 60).cast_signed();
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn micros_of_fraction(fraction: &[u8]) -> Option<u64> {
    let mut micros = 0;
    for index in 0..6 {
        let digit = fraction.get(index).copied().unwrap_or(b'0');
        micros = micros * 10 + u64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    fraction.iter().all(u8::is_ascii_digit).then_some(micros)
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter()
        .try_fold(0_u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_one_instant_are_equal() {
        let micros = 971_211_336_000_000;
        assert_eq!(common(b"10/Oct/2000:13:55:36 -0700"), Some(micros));
        for text in ["2000-10-10T20:55:36Z", "2000-10-10 13:55:36.000-07:00", "971211336", "971211336000"] {
            assert_eq!(any(text.as_bytes()), Some(micros), "{text}");
        }
        assert_eq!(any(b"971211336.25"), Some(micros + 250_000));
        assert_eq!(any(b"2000-10-10T20:55:36.1234567Z"), Some(micros + 123_456));
        assert_eq!(any(b"971211336000000000"), Some(micros));
        assert_eq!(any(b"1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(any(b"2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            ".",
            "x",
            "2023-02-29T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2000-10-10T24:00:00Z",
            "1.2.3",
            "-5",
        ] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
        assert_eq!(common(b"10/Foo/2000:13:55:36 -0700"), None);
        assert_eq!(common(b"99999999999999999999999999"), None);
    }
}
