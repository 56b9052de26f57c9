//! The name of a value in an object, of which any character may be escaped.

/// What was read of a name.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The bytes of its characters.
    length: usize,
    escape: Escape,
    /// The first of two escapes that are one character.
    half: Option<u16>,
}

/// What was read of an escape.
#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Begun,
    /// How many digits are missing, and the value of the others.
    Unit(u8, u16),
}

/// What a byte of a name adds to it.
#[derive(Debug)]
pub(super) enum Pushed {
    /// Nothing yet: it is part of an escape.
    Nothing,
    /// Bytes of a character behind so many others. The rest of the array is empty.
    Bytes(usize, [u8; 4], usize),
    /// The end, behind so many bytes.
    End(usize),
    /// The name is no JSON.
    Invalid,
}

impl Name {
    pub(super) fn push(&mut self, byte: u8) -> Pushed {
        match (&mut self.escape, byte) {
            (Escape::None, b'\\') => self.escape = Escape::Begun,
            (Escape::None, b'"') => {
                return Pushed::End(if self.half.is_some() { usize::MAX } else { self.length });
            }
            (Escape::None, _) => return self.literal(byte),
            (Escape::Begun, b'u') => self.escape = Escape::Unit(4, 0),
            (Escape::Begun, _) => {
                self.escape = Escape::None;
                return match byte {
                    b'b' => self.literal(0x08),
                    b'f' => self.literal(0x0c),
                    b'n' => self.literal(b'\n'),
                    b'r' => self.literal(b'\r'),
                    b't' => self.literal(b'\t'),
                    b'"' | b'\\' | b'/' => self.literal(byte),
                    _ => Pushed::Invalid,
                };
            }
            (Escape::Unit(missing, unit), _) => {
                let digit = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
                let Some(digit) = digit else { return Pushed::Invalid };
                *unit = *unit << 4 | digit;
                *missing -= 1;
                if *missing == 0 {
                    let unit = *unit;
                    self.escape = Escape::None;
                    return self.unit(unit);
                }
            }
        }
        Pushed::Nothing
    }

    fn unit(&mut self, unit: u16) -> Pushed {
        if self.half.is_none() && (0xd800..0xdc00).contains(&unit) {
            self.half = Some(unit);
            return Pushed::Nothing;
        }
        match char::decode_utf16(self.half.take().into_iter().chain([unit])).next() {
            Some(Ok(character)) => self.bytes(character.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => self.bytes(&NO_CHARACTER),
        }
    }

    fn literal(&mut self, byte: u8) -> Pushed {
        if self.half.take().is_some() { self.bytes(&NO_CHARACTER) } else { self.bytes(&[byte]) }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Pushed {
        let (mut character, before) = ([0; 4], self.length);
        character[..bytes.len()].copy_from_slice(bytes);
        self.length = before.saturating_add(bytes.len());
        Pushed::Bytes(before, character, bytes.len())
    }
}

/// In place of half a pair: no name of a place has it, because it is no UTF-8.
const NO_CHARACTER: [u8; 1] = [0xff];
