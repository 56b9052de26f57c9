//! The names of keys.

use portcullis_core::store::Checks;
use portcullis_core::{Key, Policy};
use smallvec::SmallVec;

use super::slot::slot_of_tag;

/// The prefix of all keys of a store.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: String,
}

impl Layout {
    pub(crate) fn new(namespace: &str, secret_id: &str) -> Result<Self, NamespaceError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        for (what, name) in [("namespace", namespace), ("secret id", secret_id)] {
            if name.is_empty() || name.len() > MAX_LEN || !name.bytes().all(plain) {
                let name = name.chars().take(MAX_LEN).collect();
                return Err(NamespaceError { what, name });
            }
        }
        Ok(Self { prefix: format!("{namespace}:v2:{secret_id}:") })
    }

    /// The namespace: the prefix up to its first colon, which a namespace cannot contain.
    pub(crate) fn namespace(&self) -> &str {
        self.prefix.split(':').next().unwrap_or_default()
    }

    /// Appends the name of the Redis key with a key's state. It ends with what the state cannot follow, such as the window's length.
    pub(crate) fn write_name(&self, name: &mut Vec<u8>, policy: &Policy, key: Key) {
        self.write_name_of_kind(name, policy, key);
        let structure = policy.strategy().structure();
        if !structure.is_empty() {
            name.push(b'.');
            name.extend_from_slice(structure.bytes());
        }
    }

    /// Appends the name without the structure of the strategy. The hash tag is the first part of the key.
    #[inline]
    fn write_name_of_kind(&self, name: &mut Vec<u8>, policy: &Policy, key: Key) {
        let (slot, all) = (key.slot(), key.fingerprint());
        name.extend_from_slice(self.prefix.as_bytes());
        name.push(b'{');
        name.extend_from_slice(&digits(slot));
        name.push(b'}');
        if all != slot {
            name.extend_from_slice(&digits(all));
        }
        for part in [":", policy.name().as_str(), ":", policy.strategy().tag()] {
            name.extend_from_slice(part.as_bytes());
        }
    }

    /// Appends the name of the Redis key with the override of a key: in the slot of its state, and the same for windows of any length.
    pub(crate) fn write_override_name(&self, name: &mut Vec<u8>, policy: &Policy, key: Key) {
        self.write_name_of_kind(name, policy, key);
        name.extend_from_slice(OVERRIDE_SUFFIX);
    }

    /// The name of the Redis key with the clients that are blocked under all policies. Its hash tag is none of a client.
    pub(crate) fn name_of_blocked_clients(&self) -> Vec<u8> {
        format!("{}{{{BLOCKED_CLIENTS}}}", self.prefix).into()
    }

    /// The name of the Redis key with a record of a caller. Its hash tag is its id, so that records are spread over the slots.
    pub(crate) fn name_of_record(&self, id: u128) -> Vec<u8> {
        let mut name = self.prefix.clone().into_bytes();
        name.push(b'{');
        name.extend_from_slice(&digits(id));
        name.push(b'}');
        name.extend_from_slice(RECORD_SUFFIX);
        name
    }

    /// How long the names of a policy's keys are at most.
    pub(crate) fn longest_name(&self, policy: &Policy) -> usize {
        let parts = [self.prefix.as_str(), "{}::", policy.name().as_str(), policy.strategy().tag()];
        let structure = policy.strategy().structure().bytes().len();
        parts.map(str::len).into_iter().sum::<usize>() + 2 * DIGITS_OF_PART + structure + ".".len()
    }
}

/// The end of the name of a key's override. No name of a state ends like this, because none is that of an algorithm.
pub(crate) const OVERRIDE_SUFFIX: &[u8] = b":override";

/// The end of the name of a record.
const RECORD_SUFFIX: &[u8] = b":record";

const BLOCKED_CLIENTS: &str = "blocked-clients";

/// The slots of the checks of a decision, in their order.
pub(crate) type Slots = SmallVec<[u16; Checks::MAX]>;

/// Returns the slot of each key. Keys with the hash tag of the key before them cost nothing.
pub(crate) fn slots(keys: impl Iterator<Item = Key>) -> Slots {
    let mut last = None;
    let slots = keys.map(|key| match last {
        Some((tag, slot)) if tag == key.slot() => slot,
        _ => {
            let slot = slot(key);
            last = Some((key.slot(), slot));
            slot
        }
    });
    slots.collect()
}

/// The cluster slot of all states of a key, which is that of its hash tag.
#[inline]
pub(crate) fn slot(key: Key) -> u16 {
    slot_of_tag(&digits(key.slot()))
}

/// The hexadecimal digits of a number. Every decision needs them, and formatting takes several times as long.
fn digits(number: u128) -> [u8; DIGITS_OF_PART] {
    let mut digits = [0; DIGITS_OF_PART];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    digits
}

/// An error for a namespace or a secret's id that cannot be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} {name:?} must be 1 to {MAX_LEN} characters from A-Z a-z 0-9 . _ -")]
pub struct NamespaceError {
    what: &'static str,
    name: String,
}

const MAX_LEN: usize = 64;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// 128 bits.
const DIGITS_OF_PART: usize = 32;

#[cfg(test)]
mod tests {
    use portcullis_core::{Anchor, FixedWindow, Quota, Secret, SlidingWindow, Strategy};

    use super::*;
    use crate::protocol::slot::slot_of;

    fn key(parts: &[&str]) -> Key {
        let mut hasher = Secret::published().hasher();
        for part in parts {
            hasher.writer().part("user", part.as_bytes());
        }
        hasher.finish().unwrap()
    }

    impl Layout {
        fn name(&self, policy: &Policy, key: Key) -> String {
            let mut name = Vec::new();
            self.write_name(&mut name, policy, key);
            assert!(name.len() <= self.longest_name(policy));
            String::from_utf8(name).unwrap()
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        let layout = Layout::new("shop", "2026").unwrap();
        let policy = Policy::gcra("login", Quota::per_second(1));
        let one = key(&["ada"]);
        assert_eq!(layout.name(&policy, one), "shop:v2:2026:{273cd58cdb10bdc4ee988d13b5450c7d}:login:gcra");
        let mut record = Vec::new();
        layout.write_override_name(&mut record, &policy, one);
        assert_eq!(record, b"shop:v2:2026:{273cd58cdb10bdc4ee988d13b5450c7d}:login:gcra:override");
        let record = layout.name_of_record(0xab);
        assert_eq!(record, b"shop:v2:2026:{000000000000000000000000000000ab}:record");
        let two = key(&["ada", "search"]);
        let all = format!("{:032x}", two.fingerprint());
        assert_eq!(
            layout.name(&policy, two),
            format!("shop:v2:2026:{{273cd58cdb10bdc4ee988d13b5450c7d}}{all}:login:gcra")
        );
    }

    #[test]
    fn list_of_blocked_clients_has_one_name() {
        let layout = Layout::new("shop", "2026").unwrap();
        assert_eq!(layout.name_of_blocked_clients(), b"shop:v2:2026:{blocked-clients}");
    }

    #[test]
    fn the_names_of_windows_end_with_what_cannot_change() {
        let layout = Layout::new("shop", "2026").unwrap();
        let (one, minute) = (key(&["ada"]), Quota::per_minute(5));
        let first = FixedWindow::new(minute).unwrap().anchored(Anchor::FirstRequest);
        let slots = SlidingWindow::with_slots(minute, 6).unwrap();
        for (policy, end) in [
            (Policy::fixed_window("login", minute), "fixed_window.60s"),
            (Policy::literal("login", Strategy::FixedWindow(first)), "fixed_window.60s.first"),
            (Policy::literal("login", Strategy::SlidingWindow(slots)), "sliding_window.60s.6"),
            (Policy::sliding_log("login", Quota::per_hour(5)), "sliding_log.3600s"),
            (Policy::token_bucket("login", minute), "token_bucket"),
        ] {
            let name = format!("shop:v2:2026:{{273cd58cdb10bdc4ee988d13b5450c7d}}:login:{end}");
            assert_eq!(layout.name(&policy, one), name);
            let (kind, _) = name.split_once('.').unwrap_or((&name, ""));
            let mut record = Vec::new();
            layout.write_override_name(&mut record, &policy, one);
            assert_eq!(record, format!("{kind}:override").as_bytes());
        }
    }

    #[test]
    fn digits_are_those_of_the_formatter() {
        for number in [0, 1, 0xf0, u128::MAX, 0x0123_4567_89ab_cdef << 60] {
            assert_eq!(digits(number), format!("{number:032x}").as_bytes());
        }
    }

    #[test]
    fn a_slot_is_that_of_the_name() {
        let layout = Layout::new("shop", "2026").unwrap();
        let policy = Policy::gcra("login", Quota::per_second(1));
        for user in 0..100 {
            let key = key(&[&user.to_string(), "search"]);
            assert_eq!(slot(key), slot_of(layout.name(&policy, key).as_bytes()));
        }
    }

    #[test]
    fn slots_are_in_the_order_of_the_keys() {
        let keys = [&["ada"][..], &["ada", "search"], &["grace"], &["ada"]].map(key);
        let [ada, grace] = [keys[0], keys[2]].map(slot);
        assert_ne!(ada, grace);
        assert_eq!(slots(keys.into_iter()).as_slice(), [ada, ada, grace, ada]);
    }

    #[test]
    fn a_namespace_that_would_break_the_layout_is_refused() {
        for name in ["", "a:b", "a{b", "caf\u{e9}", "x".repeat(65).as_str()] {
            assert!(Layout::new(name, "0").is_err(), "{name}");
            let error = Layout::new("shop", name).unwrap_err().to_string();
            assert!(error.contains("secret id"), "{error}");
        }
        assert!(Layout::new(&"x".repeat(64), "0").is_ok());
    }
}
