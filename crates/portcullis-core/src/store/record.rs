//! Records of a caller that all processes share, such as open reservations.

use alloc::vec::Vec;
use core::time::Duration;

/// A read of a record, or its replacement if it is as expected.
///
/// A record is bytes that the store does not interpret, kept for a time. An empty one is none.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: callers build it, and stores take it apart.
pub struct RecordExchange {
    /// The name of the record.
    pub id: u128,
    /// All bytes that the record is expected to have; empty if there should be none.
    pub expected: Vec<u8>,
    /// The bytes that take its place, and for how long they are kept. `None` reads the record.
    pub replacement: Option<(Vec<u8>, Duration)>,
}

/// The answer to a [`RecordExchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: stores build it.
pub struct ExchangedRecord {
    /// The record before the exchange; empty if there was none.
    pub found: Vec<u8>,
    /// Whether the replacement has taken its place.
    pub is_replaced: bool,
}

impl RecordExchange {
    /// Reads a record.
    pub const fn read(id: u128) -> Self {
        Self { id, expected: Vec::new(), replacement: None }
    }
}
