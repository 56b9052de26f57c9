//! The times of access logs, in microseconds since the Unix epoch.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Reads the time of common logs: `10/Oct/2000:13:55:36 -0700`. One without an offset, as HAProxy writes it, is in UTC.
fn common(text: &[u8]) -> Option<u64> {
    if !text.contains(&b' ') {
        let time = strtime::parse("%d/%b/%Y:%H:%M:%S%.f", text).ok()?.to_datetime().ok()?;
        return micros(time.to_zoned(TimeZone::UTC).ok()?.timestamp());
    }
    micros(strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text).ok()?.to_timestamp().ok()?)
}

/// Reads the time of common logs, a number of seconds, milliseconds, microseconds or nanoseconds, by its size, or a time as in RFC 3339.
pub(super) fn any(text: &[u8]) -> Option<u64> {
    if text.get(2) == Some(&b'/') {
        return common(text);
    }
    let is_number = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let text = std::str::from_utf8(text).ok()?;
    if is_number { number(text) } else { micros(text.parse().ok()?) }
}

/// A number below 10^11 is in seconds (to the year 5138), below 10^14 in milliseconds, below 10^17 in microseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "digits are not negative, and microseconds of these numbers are below 2^64"
)]
fn number(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    let micros = match number {
        ..1e11 => number * 1e6,
        ..1e14 => number * 1e3,
        ..1e17 => number,
        ..1e20 => number / 1e3,
        _ => return None,
    };
    Some(micros.round() as u64)
}

fn micros(instant: Timestamp) -> Option<u64> {
    u64::try_from(instant.as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_one_instant_are_equal() {
        let micros = 971_211_336_000_000;
        assert_eq!(common(b"10/Oct/2000:13:55:36 -0700"), Some(micros));
        for text in [
            "2000-10-10T20:55:36Z",
            "2000-10-10T20:55:36Z[UTC]",
            "2000-10-10 13:55:36.000-07:00",
            "971211336",
            "971211336000",
        ] {
            assert_eq!(any(text.as_bytes()), Some(micros), "{text}");
        }
        assert_eq!(any(b"10/Oct/2000:20:55:36.250"), Some(micros + 250_000));
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
