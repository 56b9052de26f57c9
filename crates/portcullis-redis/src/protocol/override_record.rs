//! The record of an override in Redis, and the call that reads or replaces it.

use bytes::Bytes;
use portcullis_core::{StoreError, Timestamp};

use super::value::Value;
use super::wire::{DOUBLE, double, malformed, number_at};

/// What the script replied.
#[derive(Clone, Debug)]
pub(crate) struct FoundRecord {
    /// The server's time.
    pub(crate) at: Timestamp,
    pub(crate) is_replaced: bool,
    /// The record before the call; empty if there was none.
    pub(crate) record: Bytes,
}

impl FoundRecord {
    /// Reads a reply of the script.
    pub(crate) fn new(reply: &Value) -> Result<Self, StoreError> {
        let Value::Text(bytes) = reply else { return Err(malformed()) };
        let numbers = number_at(bytes, 0).zip(number_at(bytes, DOUBLE));
        let (at, replaced) = numbers.ok_or_else(malformed)?;
        let record = bytes.slice(2 * DOUBLE..);
        Ok(Self { at: Timestamp::from_micros(at), is_replaced: replaced == 1, record })
    }
}

/// Whether a record was written.
pub(crate) fn replaced(reply: &Value) -> bool {
    FoundRecord::new(reply).is_ok_and(|found| found.is_replaced)
}

/// The request that replaces `expected` by `new` for a number of milliseconds, or only reads for 0. An empty record is none.
///
/// Mirrors: the comment of `lua/override_record.lua`.
pub(crate) fn replace_request(expiry: u64, expected: &[u8], new: &[u8]) -> Bytes {
    let length = u64::try_from(expected.len()).unwrap_or(u64::MAX);
    [&double(expiry)[..], &double(length), expected, new].concat().into()
}
