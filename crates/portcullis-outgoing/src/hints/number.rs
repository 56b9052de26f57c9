//! Decimal numbers of a unit of time.

use std::time::Duration;

/// Microseconds.
pub(super) const SECOND: u64 = 1_000_000;
/// Microseconds.
pub(super) const MILLISECOND: u64 = 1_000;

/// Reads digits, with a fraction or without, as a number of units of this many microseconds, rounded up. A number that is too large
/// is the longest time. `None` for anything else, such as a sign, and for more than 32 characters.
pub(super) fn parse(value: &[u8], unit: u64) -> Option<Duration> {
    let value = value.trim_ascii();
    if value.len() > MAX_LENGTH {
        return None;
    }
    let point = value.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&value[..point], &value[point + 1..]),
        None => (value, &b"0"[..]),
    };
    // 32 digits fit into 128 bits.
    let whole = digits(whole)?.saturating_mul(unit.into());
    let scale = 10_u128.saturating_pow(u32::try_from(fraction.len()).ok()?);
    // With more digits than fit, the smallest unit is exceeded by far.
    let fraction = digits(fraction)?.saturating_mul(unit.into()).div_ceil(scale);
    let micros = whole.saturating_add(fraction);
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
}

/// At least one digit, and at most [`MAX_LENGTH`].
fn digits(value: &[u8]) -> Option<u128> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u128, |number, byte| {
        byte.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u128::from(byte - b'0')))
    })
}

const MAX_LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_to_microseconds() {
        for (value, micros) in [
            ("0", 0),
            ("1", 1_000_000),
            (" 7\t", 7_000_000),
            ("1.5", 1_500_000),
            ("0.0000001", 1),
            ("0.0000000000000000000000000001", 1),
            ("18446744073709551616", u64::MAX),
            ("99999999999999999999999999999999", u64::MAX),
        ] {
            assert_eq!(parse(value.as_bytes(), SECOND), Some(Duration::from_micros(micros)), "{value}");
        }
        assert_eq!(parse(b"1500", MILLISECOND), Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn anything_else_is_no_number() {
        let long = "1".repeat(33);
        for value in
            ["", " ", "-1", "+1", "1e3", "0x10", "1,5", ".", "1.", ".5", "1.2.3", "1 2", "soon", &long]
        {
            assert_eq!(parse(value.as_bytes(), SECOND), None, "{value}");
        }
    }
}
