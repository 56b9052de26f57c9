//! The slots of a cluster.

use crc16::{State, XMODEM};

/// Returns the slot of a key: that of its hash tag, if it has one.
///
/// Source: Redis Cluster specification, "Key distribution model" and "Hash tags".
pub(crate) fn slot_of(name: &[u8]) -> u16 {
    slot_of_tag(hash_tag(name).unwrap_or(name))
}

/// Returns the slot of all keys with a hash tag.
pub(crate) fn slot_of_tag(tag: &[u8]) -> u16 {
    State::<XMODEM>::calculate(tag) % SLOTS
}

/// The bytes between the first `{` and the next `}`, if there are any.
fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'{')? + 1;
    let length = name[start..].iter().position(|byte| *byte == b'}')?;
    if length > 0 { Some(&name[start..start + length]) } else { None }
}

const SLOTS: u16 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(slot_of_tag(b"123456789"), 0x31c3);
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
            assert_eq!(slot_of(name.as_bytes()), slot_of_tag(tag.as_bytes()), "{name}");
        }
    }
}
