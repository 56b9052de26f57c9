//! The slots of a cluster.

/// Returns the slot of a key: that of its hash tag, if it has one.
///
/// Source: Redis Cluster specification, "Key distribution model" and "Hash tags".
pub(crate) fn slot_of(name: &[u8]) -> u16 {
    slot_of_tag(hash_tag(name).unwrap_or(name))
}

/// Returns the slot of all keys with a hash tag.
pub(crate) fn slot_of_tag(tag: &[u8]) -> u16 {
    crc16(tag) % SLOTS
}

/// The bytes between the first `{` and the next `}`, if there are any.
fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'{')? + 1;
    let length = name[start..].iter().position(|byte| *byte == b'}')?;
    if length > 0 { Some(&name[start..start + length]) } else { None }
}

/// CRC-16/XMODEM: the polynomial 0x1021, from zero, without reflection.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ REMAINDERS[usize::from(high ^ byte)]
    })
}

/// The remainder of each value of a byte.
static REMAINDERS: [u16; 256] = {
    let mut remainders = [0; 256];
    let mut index = 0;
    // The index and the same number in the upper byte: a `const` cannot convert between them.
    let mut high: u16 = 0;
    while index < remainders.len() {
        let (mut remainder, mut bit) = (high, 0);
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder <<= 1;
            if carry {
                remainder ^= 0x1021;
            }
            bit += 1;
        }
        remainders[index] = remainder;
        index += 1;
        high = high.wrapping_add(0x100);
    }
    remainders
};

const SLOTS: u16 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn only_the_first_tag_with_content_determines_the_slot() {
        for (name, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo{", "foo{"),
            ("}foo{bar}", "bar"),
            ("", ""),
        ] {
            assert_eq!(slot_of(name.as_bytes()), crc16(tag.as_bytes()) % SLOTS, "{name}");
        }
    }
}
