//! The length of records, and the parameters that few of them have.

use portcullis_core::algorithm::Meter;

use super::{DOUBLE, Operation, Record};

/// The level above which a step of the clock led, and that up to which a forced charge goes, for a rate-based algorithm whose levels
/// are not twice the highest one: each in microseconds, the second with a remainder.
pub(super) fn levels(operation: Operation<'_>, meter: &Meter) -> Option<[u64; 3]> {
    let ceiling = meter.ceiling()?;
    match operation {
        Operation::Check => Some([ceiling, 0, 0]),
        Operation::Force => Some([ceiling, meter.deepest().micros, meter.deepest().remainder]),
        // A refund leaves the cut to the next decision.
        Operation::Refund(_) | Operation::Reset | Operation::Renew => None,
    }
}

/// The bytes of each record of a request, and the flag of its operation: all records are long if one has levels of its own.
pub(super) fn length_of_records(records: &[Record]) -> (usize, u8) {
    let is_long = records.iter().any(|record| record[RECORD..] != [0; MAX_RECORD - RECORD]);
    if is_long { (MAX_RECORD, LONG_RECORDS) } else { (RECORD, 0) }
}

/// The records of a request whose operation has this byte, in the long form.
pub(super) fn records_of(operation: u8, bytes: &[u8]) -> impl Iterator<Item = Record> {
    let length = if operation & LONG_RECORDS == 0 { RECORD } else { MAX_RECORD };
    bytes.chunks_exact(length).map(move |bytes| {
        let mut record = [0; MAX_RECORD];
        record[..length].copy_from_slice(bytes);
        record
    })
}

pub(super) const RECORD: usize = 1 + 6 * DOUBLE;
pub(super) const MAX_RECORD: usize = RECORD + 3 * DOUBLE;
const LONG_RECORDS: u8 = 128;
