//! Durations with units, such as `6m0s`.

use std::time::Duration;

use super::number;

/// Reads numbers with units, one after the other, as Go writes durations: `6m0s`, `1.5s`, `120ms`, `1d2h`. `None` for anything else,
/// such as a number without a unit.
pub(super) fn parse(value: &[u8]) -> Option<Duration> {
    let mut rest = value.trim_ascii();
    if rest.is_empty() || rest.len() > MAX_LENGTH {
        return None;
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let digits = rest.iter().take_while(|byte| is_number(byte)).count();
        let unit = rest[digits..].iter().take_while(|byte| !is_number(byte)).count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + unit]);
        let micros = match unit {
            b"d" => 86_400 * number::SECOND,
            b"h" => 3_600 * number::SECOND,
            b"m" => 60 * number::SECOND,
            b"s" => number::SECOND,
            b"ms" => number::MILLISECOND,
            // The two signs for micro in UTF-8.
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" | b"ns" => 1,
            _ => return None,
        };
        let length = number::parse(number, micros)?;
        sum = sum.saturating_add(if unit == b"ns" { length / 1_000 } else { length });
        rest = &rest[number.len() + unit.len()..];
    }
    Some(sum)
}

const MAX_LENGTH: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_added() {
        for (value, micros) in [
            ("6m0s", 360_000_000),
            (" 1s ", 1_000_000),
            ("8.64s", 8_640_000),
            ("120ms", 120_000),
            ("1d2h3m4.5s", 93_784_500_000),
            ("7\u{b5}s", 7),
            ("7\u{3bc}s", 7),
            ("7us", 7),
            ("9000ns", 9),
            ("0s", 0),
        ] {
            assert_eq!(parse(value.as_bytes()), Some(Duration::from_micros(micros)), "{value}");
        }
        assert_eq!(
            parse(b"9999999999999999999999999999999d1s"),
            Some(Duration::from_micros(u64::MAX) + Duration::from_secs(1))
        );
    }

    #[test]
    fn anything_else_is_no_duration() {
        let long = "1s".repeat(21);
        for value in
            ["", " ", "6", "6m0", "s", "-1s", "+1s", "1 s", "1y", "1.s", ".5s", "1e3s", "1m,2s", &long]
        {
            assert_eq!(parse(value.as_bytes()), None, "{value}");
        }
    }
}
