//! Any bytes in place of an encoded state.

use portcullis_core::algorithm::State;
use portcullis_core::{Policy, PolicyName, Timestamp};

use super::{period_of, properties::StateUnderTest, strategy};
use crate::bytes::Bytes;

/// Checks the properties of decoded bytes. The first bytes select a strategy, an instant and a cost; the rest is the encoding of
/// a state.
///
/// What decodes has one encoding and takes no more memory than its bytes justify. It decides consistently under any strategy,
/// and what a decision leaves of it decodes to itself.
///
/// # Panics
///
/// If a property does not hold.
pub fn encoded_state(input: &[u8]) {
    let mut bytes = Bytes(input);
    let Some(strategy) = strategy(&mut bytes) else { return };
    let now = Timestamp::from_micros(bytes.near(crate::sane::PRESENT.as_micros(), period_of(&strategy)));
    let cost = bytes.u64();
    let encoded = bytes.0;
    let state = match State::decode(encoded) {
        Ok(state) => state,
        Err(error) => return crate::sane::message(&error.to_string()),
    };
    assert_eq!(state.encode(), encoded, "{state:?}");
    assert!(state.heap_bytes() <= encoded.len() + FIXED, "{state:?}");

    let mut subject =
        StateUnderTest { policy: Policy::new(PolicyName::literal("p"), strategy), state: Some(state), now };
    subject.check_properties(cost);
    strategy.advance(&mut subject.state, now);
    if let Some(state) = &subject.state {
        assert_eq!(State::decode(&state.encode()).as_ref(), Ok(state));
    }
    subject.is_limited_at_one_instant();
}

/// The memory of slots besides their counts.
const FIXED: usize = 128;
