#![doc = include_str!("../README.md")]

mod events;
mod gzip;
mod json;
mod reader;
mod response;
mod scan;
mod tally;

pub use reader::{PointerError, UsageReader};
pub use response::UsageScan;
pub use scan::{MOST_RATIO, MOST_READ, Unreadable};
pub use tally::Count;
