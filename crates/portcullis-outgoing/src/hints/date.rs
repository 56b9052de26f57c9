//! Instants on the clock of another server.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

use super::number;

/// Reads an HTTP date, or an instant of RFC 3339.
pub(super) fn parse(value: &[u8]) -> Option<SystemTime> {
    let value = value.trim_ascii();
    if value.len() > MAX_LENGTH {
        return None;
    }
    rfc3339(value).or_else(|| httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok())
}

/// The time until an instant that the server states. Both are compared on its own clock, by the `Date` of the answer, so that it does
/// not matter how far its clock is from ours; without a valid `Date`, on ours. Zero if the instant has passed.
pub(super) fn until(at: SystemTime, headers: &HeaderMap, now: &impl Fn() -> SystemTime) -> Duration {
    let theirs = headers.get(header::DATE).and_then(|date| parse(date.as_bytes()));
    at.duration_since(theirs.unwrap_or_else(now)).unwrap_or_default()
}

/// Reads `2023-11-14T22:13:30.5+01:00`, from 1970 on. A leap second is the next second.
///
/// Source: RFC 3339, section 5.6.
fn rfc3339(text: &[u8]) -> Option<SystemTime> {
    let (&[_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't' | b' ', _, _, b':', _, _, b':', _, _], rest) =
        text.split_first_chunk::<19>()?
    else {
        return None;
    };
    let fraction = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (is_ahead, offset) = match &rest[fraction..] {
        [b'Z' | b'z'] => (false, Duration::ZERO),
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => (*sign == b'+', offset(&rest[fraction + 1..])?),
        _ => return None,
    };
    // The library takes neither offsets nor leap seconds.
    let mut minute = *b"0000-00-00T00:00:00Z";
    minute[..10].copy_from_slice(&text[..10]);
    minute[11..16].copy_from_slice(&text[11..16]);
    let minute = humantime::parse_rfc3339(std::str::from_utf8(&minute).ok()?).ok()?;
    let minute = if is_ahead { minute.checked_sub(offset) } else { minute.checked_add(offset) }?;
    if two(&text[17..19])? > 60 {
        return None;
    }
    let at = minute.checked_add(number::parse(&text[17..19 + fraction], number::SECOND)?)?;
    (at >= SystemTime::UNIX_EPOCH).then_some(at)
}

/// `01:00`.
fn offset(text: &[u8]) -> Option<Duration> {
    let (hours, minutes) = (two(&text[..2])?, two(&text[3..])?);
    (hours <= 23 && minutes <= 59).then(|| Duration::from_secs(60 * (60 * hours + minutes)))
}

fn two(text: &[u8]) -> Option<u64> {
    match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(10 * u64::from(tens - b'0') + u64::from(ones - b'0'))
        }
        _ => None,
    }
}

/// The longest of the forms, with nine digits after the second, has 35 characters.
const MAX_LENGTH: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_rfc_3339_are_read() {
        for (text, millis) in [
            ("2023-11-14T22:13:30Z", 1_700_000_010_000),
            (" 2023-11-14t22:13:30z ", 1_700_000_010_000),
            ("2023-11-14 22:13:30.25+00:00", 1_700_000_010_250),
            ("2023-11-15T03:43:30.000000000+05:30", 1_700_000_010_000),
            ("2023-11-14T14:13:30-08:00", 1_700_000_010_000),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2024-03-01T00:00:00Z", 1_709_251_200_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(parse(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_instant_are_refused() {
        for text in [
            "2023-11-14T22:13:30",
            "2023-11-14T22:13:30+0100",
            "2023-11-14T22:13:30.Z",
            "2023-11-14T22:13:30.1.2Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60:00Z",
            "2023-11-14T22:13:61Z",
            "2023-11-14T22:13:30+24:00",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-11-00T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2023-11-14",
            "0000-01-01T00:00:00Z",
            "2023-11-14T22:13:30\u{e4}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
