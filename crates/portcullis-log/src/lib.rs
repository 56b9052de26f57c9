//! Counted log lines: some at once, and then one for all others when the interval is over, by the clock of the runtime.
//! And the [codes] of all warnings and errors.
//!
//! ```
//! use portcullis_log::{LogThrottle, UnsaidLines};
//!
//! static FAILED: LogThrottle = LogThrottle::per_minute();
//! let (said, lines) = std::sync::mpsc::channel();
//! for bytes in [10, 20, 30] {
//!     let said = said.clone();
//!     FAILED.count(bytes, None, || move |counted| said.send((counted.events, counted.units)).unwrap());
//! }
//! assert_eq!(lines.try_recv(), Ok((1, 10)));
//! // When the minute is over, or at the end of the process.
//! UnsaidLines::of_process().write();
//! assert_eq!(lines.try_recv(), Ok((2, 50)));
//! ```
//!
//! # Features
//!
//! `runtime` has the timer, on Tokio. Features are united, so that all crates of a program have it if one of them asks for it.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod codes;
pub mod file_log;
mod line;
mod throttle;
mod unsaid;

pub use line::Counted;
pub use throttle::LogThrottle;
pub use unsaid::UnsaidLines;
