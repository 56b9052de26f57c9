//! What an unquoted scalar is in YAML 1.1, by which Envoy's service reads its files.

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is not an integer of 64 bits. Envoy's service refuses it wherever it occurs.
    OtherNumber,
    Text,
}

/// The type of an unquoted scalar. `yes` and `off` are truth values, `0x1f`, `010` and `1_000` are integers.
pub(super) fn resolve(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Kind::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Kind::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Kind::OtherNumber,
        _ => {}
    }
    if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF") {
        return Kind::OtherNumber;
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Kind::Text;
    }
    if text.starts_with('.') {
        return if is_float(text) { Kind::OtherNumber } else { Kind::Text };
    }
    let plain = text.replace('_', "");
    match integer(&plain) {
        Some(value) => i64::try_from(value).map_or(Kind::OtherNumber, Kind::Integer),
        None if is_float(&plain) => Kind::OtherNumber,
        None => Kind::Text,
    }
}

/// An integer with an optional sign and prefix, if it has at most 64 bits.
fn integer(plain: &str) -> Option<i128> {
    let (sign, digits) = match plain.as_bytes().first()? {
        b'-' => (-1, &plain[1..]),
        b'+' => (1, &plain[1..]),
        _ => (1, plain),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(|value| sign * i128::from(value))
}

/// Whether a text is a decimal number such as `1.5`, `.5` or `1e3`.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.is_none_or(|part| {
        digits(part.strip_prefix(['+', '-']).unwrap_or(part))
            && part.ends_with(|last: char| last.is_ascii_digit())
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent
}

#[cfg(test)]
mod tests {
    use super::{Kind, resolve};

    #[test]
    fn scalars_have_the_types_of_yaml_1_1() {
        for (text, kind) in [
            ("", Kind::Null),
            ("~", Kind::Null),
            ("yes", Kind::Bool(true)),
            ("Off", Kind::Bool(false)),
            ("5", Kind::Integer(5)),
            ("+5", Kind::Integer(5)),
            ("-5", Kind::Integer(-5)),
            ("010", Kind::Integer(8)),
            ("0x1F", Kind::Integer(31)),
            ("0o17", Kind::Integer(15)),
            ("0b101", Kind::Integer(5)),
            ("1_000", Kind::Integer(1_000)),
            ("0", Kind::Integer(0)),
            ("9223372036854775808", Kind::OtherNumber),
            ("99999999999999999999999", Kind::OtherNumber),
            ("08", Kind::OtherNumber),
            ("1.5", Kind::OtherNumber),
            ("1e3", Kind::OtherNumber),
            (".5", Kind::OtherNumber),
            ("-.inf", Kind::OtherNumber),
            (".", Kind::Text),
            ("-", Kind::Text),
            ("1e", Kind::Text),
            ("0x", Kind::Text),
            ("+-5", Kind::Text),
            ("50.0.0.5", Kind::Text),
            ("2026-01-31", Kind::Text),
            ("day", Kind::Text),
            ("٥", Kind::Text),
        ] {
            assert_eq!(resolve(text), kind, "{text}");
        }
    }
}
