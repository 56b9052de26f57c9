//! Decodes the escapes of a path.

use smallvec::SmallVec;

use super::super::fold;

/// A path whose escapes are decoded a number of times, before it is folded.
#[derive(Clone)]
pub(super) struct Decoded {
    bytes: Bytes,
    /// For each byte how often its escape was decoded: a slash that was escaped may be a separator, or part of a segment.
    births: Bytes,
    /// Whether servers read something of it in too many ways: a malformed escape, a control character, an overlong form of UTF-8.
    pub(super) is_illegible: bool,
    /// Whether an escape that only some servers know was decoded.
    pub(super) has_odd: bool,
}

/// Short paths are on the stack.
pub(super) type Bytes = SmallVec<[u8; 256]>;

impl Decoded {
    pub(super) fn written(path: &[u8]) -> Self {
        let bytes = Bytes::from_slice(path);
        let births = SmallVec::from_elem(0, bytes.len());
        let is_illegible = has_odd_bytes(&bytes);
        Self { bytes, births, is_illegible, has_odd: false }
    }

    /// Decodes the escapes once more, for the time of this number, with or without those that only some servers know. `None` if there are none.
    pub(super) fn decode(&self, time: u8, decodes_odd: bool) -> Option<Self> {
        let capacity = self.bytes.len();
        let mut next = Self {
            bytes: Bytes::with_capacity(capacity),
            births: Bytes::with_capacity(capacity),
            is_illegible: self.is_illegible,
            has_odd: self.has_odd,
        };
        let (mut at, mut has_escapes) = (0, false);
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let (character, length) = match first(rest) {
                (First::Odd(_), _) if !decodes_odd => written(rest),
                first => first,
            };
            match character {
                First::Written(byte) => {
                    let birth = self.births.get(at).copied().unwrap_or_default();
                    next.push(&[byte], birth);
                    next.is_illegible |= byte == b'%' && birth == 0;
                }
                First::Escaped(byte) => next.push(&[byte], time),
                First::Odd(character) => {
                    next.push(character.encode_utf8(&mut [0; 4]).as_bytes(), time);
                    (next.is_illegible, next.has_odd) = (true, true);
                }
            }
            has_escapes |= !matches!(character, First::Written(_));
            at += length;
        }
        next.is_illegible |= has_odd_bytes(&next.bytes);
        has_escapes.then_some(next)
    }

    fn push(&mut self, bytes: &[u8], birth: u8) {
        self.bytes.extend_from_slice(bytes);
        self.births.resize(self.bytes.len(), birth);
    }

    /// Whether an escape is left, or what was written as one and is none. A percent sign that was escaped is a percent sign.
    pub(super) fn has_escapes(&self) -> bool {
        let escapes = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| at);
        escapes.into_iter().any(|at| {
            let is_written = self.births.get(at).is_none_or(|birth| *birth == 0);
            is_written || !matches!(first(self.bytes.get(at..).unwrap_or_default()), (First::Written(_), _))
        })
    }

    /// Calls this with each folded byte and the number of times that it was decoded.
    pub(super) fn fold(&self, mut each: impl FnMut(u8, u8)) {
        let mut at = 0;
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                let birth = self.births.get(at).copied().unwrap_or_default();
                at += character.len_utf8();
                // Saves a quarter of the instructions of all readings of a usual path.
                if let Some(byte) = u8::try_from(character).ok().filter(u8::is_ascii) {
                    each(byte.to_ascii_lowercase(), birth);
                    continue;
                }
                for folded in fold::folded_char(character) {
                    for byte in folded.encode_utf8(&mut [0; 4]).bytes() {
                        each(byte, birth);
                    }
                }
            }
            for byte in chunk.invalid() {
                each(*byte, self.births.get(at).copied().unwrap_or_default());
                at += 1;
            }
        }
    }
}

enum First {
    Written(u8),
    Escaped(u8),
    /// The character of an escape such as `%u0061`, which no standard has, or of an overlong form of UTF-8.
    Odd(char),
}

/// What a text begins with, and the number of its bytes. What is no escape stays as it is.
fn first(text: &[u8]) -> (First, usize) {
    let number = |digits: &[u8]| {
        let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
        digits
            .collect::<Option<SmallVec<[u32; 4]>>>()
            .map(|digits| digits.iter().fold(0, |sum, digit| sum << 4 | digit))
    };
    let escape = match text {
        [b'%', b'u' | b'U', digits @ ..] => {
            let character = digits.get(..4).and_then(number).and_then(char::from_u32);
            character.map(|character| (First::Odd(character), 6))
        }
        [b'%', digits @ ..] => {
            let byte = digits.get(..2).and_then(number).and_then(|byte| u8::try_from(byte).ok());
            byte.map(|byte| (First::Escaped(byte), 3))
        }
        _ => overlong(text),
    };
    escape.unwrap_or_else(|| written(text))
}

fn written(text: &[u8]) -> (First, usize) {
    (First::Written(text.first().copied().unwrap_or_default()), 1)
}

/// What more bytes than it takes may stand for: they are no character, but some decoders read one.
fn overlong(text: &[u8]) -> Option<(First, usize)> {
    let low = |byte: u8| (0x80..0xc0).contains(&byte).then_some(u32::from(byte & 0x3f));
    let (character, length) = match *text {
        [first @ 0xc0..=0xc1, last, ..] => (u32::from(first & 1) << 6 | low(last)?, 2),
        [0xe0, middle @ 0x80..0xa0, last, ..] => (low(middle)? << 6 | low(last)?, 3),
        [0xf0, high @ 0x80..0x90, middle, last, ..] => (low(high)? << 12 | low(middle)? << 6 | low(last)?, 4),
        _ => return None,
    };
    Some((First::Odd(char::from_u32(character)?), length))
}

/// Whether it has control characters, or what no text in UTF-8 has before a byte that continues a character. Alone such a byte is a letter of
/// an older encoding.
fn has_odd_bytes(text: &[u8]) -> bool {
    let follows = text.iter().skip(1).copied().chain([0]);
    text.iter().zip(follows).any(|(byte, next)| match (byte, next) {
        (0xc0 | 0xc1 | 0xf5.., 0x80..0xc0) | (0xe0, 0x80..0xa0) | (0xf0, 0x80..0x90) => true,
        (byte, _) => byte.is_ascii_control(),
    })
}
