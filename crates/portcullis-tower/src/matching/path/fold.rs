//! Upper and lower case, and the blanks and dots at the end of a segment.

/// A text without regard to case.
///
/// By characters, upper case first: then the sign of the kelvin and the long s, which some servers take for `k` and `s`, are folded to these.
pub(super) fn folded(text: &str) -> String {
    text.chars().flat_map(folded_char).collect()
}

pub(super) fn folded_char(character: char) -> impl Iterator<Item = char> {
    character.to_uppercase().flat_map(char::to_lowercase)
}

/// Whether some servers ignore a character at the end of a segment.
pub(super) fn is_trimmed(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_trimmed_byte)
}

pub(super) fn is_trimmed_byte(byte: u8) -> bool {
    byte == b'.' || is_blank(byte)
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
