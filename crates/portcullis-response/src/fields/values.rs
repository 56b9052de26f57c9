//! Header values: static for small numbers, with one allocation otherwise.

mod small;

use bytes::Bytes;
use http::HeaderValue;
use portcullis_core::PolicyName;
use smallvec::SmallVec;

/// A buffer on the stack, large enough for one item.
pub(crate) type ItemBuf = SmallVec<[u8; 256]>;

/// No allocation for a small number. Otherwise half the allocations of `HeaderValue::from(number)`, which reserves 20 bytes and
/// then shares them.
pub(crate) fn number(number: u64) -> HeaderValue {
    small_number(number).unwrap_or_else(|| value(itoa::Buffer::new().format(number).as_bytes()))
}

/// The value of a small number, without an allocation.
pub(crate) fn small_number(number: u64) -> Option<HeaderValue> {
    small::text(number).map(HeaderValue::from_static)
}

#[inline]
pub(crate) fn push_number(bytes: &mut ItemBuf, number: u64) {
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// An integer of a structured field, which has at most 15 digits.
///
/// Source: RFC 9651, section 3.3.1.
pub(crate) fn push_integer(bytes: &mut ItemBuf, number: u64) {
    push_number(bytes, number.min(999_999_999_999_999));
}

/// A string of a structured field. All characters of a name are allowed in it; two of them are escaped.
///
/// Source: RFC 9651, section 3.3.3.
pub(crate) fn push_string(bytes: &mut impl Extend<u8>, name: &PolicyName) {
    bytes.extend([b'"']);
    for byte in name.as_str().bytes() {
        if matches!(byte, b'"' | b'\\') {
            bytes.extend([b'\\']);
        }
        bytes.extend([byte]);
    }
    bytes.extend([b'"']);
}

/// A list of strings of a structured field.
pub fn list<'a>(names: impl Iterator<Item = &'a PolicyName>) -> HeaderValue {
    let mut bytes = Vec::new();
    for name in names {
        if !bytes.is_empty() {
            bytes.extend_from_slice(b", ");
        }
        push_string(&mut bytes, name);
    }
    value(&bytes)
}

pub(crate) fn value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect(PRINTABLE)
}

/// The value of bytes that are not copied.
pub(crate) fn shared(bytes: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(bytes).expect(PRINTABLE)
}

const PRINTABLE: &str = "numbers and names of policies are printable ASCII";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_integers_are_bounded() {
        for value in [0, 7, 10, 429, 4_095, 4_096, 4_294_967_295, u64::MAX] {
            assert_eq!(number(value), value.to_string());
            let mut bytes = ItemBuf::from_slice(b"=");
            push_number(&mut bytes, value);
            assert_eq!(bytes.as_slice(), format!("={value}").as_bytes());
        }
        let mut bytes = ItemBuf::new();
        push_integer(&mut bytes, u64::MAX);
        assert_eq!(bytes.as_slice(), b"999999999999999");
    }

    #[test]
    fn strings_escape_quotes_and_backslashes() {
        let names = [r#"a"b\c"#, "~ d"].map(|name| PolicyName::new(name).unwrap());
        assert_eq!(list(names.iter()), r#""a\"b\\c", "~ d""#);
    }
}
