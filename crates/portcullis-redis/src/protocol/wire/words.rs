//! The words of a call.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::{Replay, Words};

/// The keys and the arguments of a call. Calls that make equal decisions may share them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallWords {
    /// The names of the keys.
    pub(crate) keys: Words,
    pub(crate) args: Words,
    /// What the decision is computed from if the script makes it several times; `None` for one that is never repeated.
    pub(crate) replay: Option<Replay>,
    /// Equal for equal decisions that the script may make several times, and hardly ever for different ones; `None` for all other words.
    pub(crate) tag: Option<NonZeroU64>,
}

impl CallWords {
    pub(crate) fn new(keys: Words, args: Words) -> Arc<Self> {
        Self::of_decision(keys, args, None)
    }

    /// The words of a decision. The script may make those with a replay several times.
    pub(crate) fn of_decision(keys: Words, args: Words, replay: Option<Replay>) -> Arc<Self> {
        let tag = match (keys.first(), args.first()) {
            (Some(key), Some(request)) if replay.is_some() => Some(tag_of(key, request)),
            _ => None,
        };
        Arc::new(Self { keys, args, replay, tag })
    }
}

/// A hash without a secret.
fn tag_of(key: &[u8], request: &[u8]) -> NonZeroU64 {
    let end_of = |word: &[u8]| word.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
    let hash_of = |word: &[u8]| {
        let (words, _) = word.as_chunks::<8>();
        let mixed = words.iter().fold(0_u64, |hash, word| {
            (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x517c_c1b7_2722_0a95)
        });
        mixed.wrapping_add(end_of(word))
    };
    NonZeroU64::MIN | (hash_of(key).rotate_left(32) ^ hash_of(request))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn decisions_that_differ_have_other_tags() {
        let tag_of = |key: &'static str, request: &'static str, replay: Option<Replay>| {
            let [keys, args] = [key, request].map(|word| [Bytes::from(word)].into_iter().collect());
            CallWords::of_decision(keys, args, replay).tag
        };
        let gcra = portcullis_core::Policy::gcra("gcra", portcullis_core::Quota::per_minute(5));
        let replay = Replay::of(gcra.strategy(), 1);
        assert!(replay.is_some());
        let tag = tag_of("portcullis:ada:gcra-1", "a request of one unit", replay);
        assert_eq!(tag, tag_of("portcullis:ada:gcra-1", "a request of one unit", replay));
        for (key, request) in [
            ("portcullis:ada:gcra-2", "a request of one unit"),
            ("portcullis:eve:gcra-1", "a request of one unit"),
            ("portcullis:ada:gcra-1", "a request of two unit"),
            ("portcullis:ada:gcra-1", "a request of one unis"),
        ] {
            assert_ne!(tag, tag_of(key, request, replay), "{key} {request}");
        }
        assert_eq!(tag_of("portcullis:ada:gcra-1", "a request of one unit", None), None);
    }
}
