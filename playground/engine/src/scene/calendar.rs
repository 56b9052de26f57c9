//! The calendar of scenes.

use portcullis_core::{Timestamp, WindowTable};

/// The windows of a calendar by their name.
pub(crate) fn windows(name: &str) -> Result<&'static WindowTable, String> {
    if name == MONTHS.name() {
        Ok(&MONTHS)
    } else {
        Err(format!("unknown windows {name:?}: the playground has {:?}", MONTHS.name()))
    }
}

/// The months of 2026. Months are counted from January 1970, which is 1.
static MONTHS: WindowTable = match WindowTable::new("months in UTC", 673, &STARTS) {
    Ok(table) => table,
    Err(_) => panic!("the starts ascend"),
};

static STARTS: [Timestamp; 13] = {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut starts, mut day, mut month) = ([Timestamp::EPOCH; 13], 20_454, 0);
    while month < 13 {
        starts[month] = Timestamp::from_micros(day * 86_400_000_000);
        if month < 12 {
            day += DAYS[month];
        }
        month += 1;
    }
    starts
};
