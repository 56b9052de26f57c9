//! Upper and lower case, and the blanks and dots at the end of a segment.

/// A text without regard to case.
///
/// By characters, to lower, upper and lower case: then the sign of the kelvin, the long s and the capital sharp s, which some servers take
/// for `k`, `s` and `ss`, are folded to these; and so is the Turkish `I` with a dot, whose lower case has a mark of its own elsewhere.
pub(super) fn folded(text: &str) -> String {
    text.chars().flat_map(folded_char).collect()
}

pub(super) fn folded_char(character: char) -> impl Iterator<Item = char> {
    let character = if character == '\u{130}' { 'i' } else { character };
    character.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Whether some servers ignore a character at the end of a segment.
pub(super) fn is_trimmed(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_trimmed_byte)
}

pub(super) fn is_trimmed_byte(byte: u8) -> bool {
    byte == b'.' || is_blank(byte)
}

/// A segment without blanks and dots at its end.
pub(crate) fn trimmed(segment: &[u8]) -> &[u8] {
    let end = segment.iter().rposition(|byte| !is_trimmed_byte(*byte)).map_or(0, |last| last + 1);
    segment.get(..end).unwrap_or_default()
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
