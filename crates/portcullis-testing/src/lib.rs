//! Tools to test the stores of Portcullis, and stores of other crates.
//!
//! | to | use |
//! |---|---|
//! | set the time | [`ManualClock`] |
//! | read timelines from TOML | [`Scenario`], see [`scenario`] for the format |
//! | drive a store, a service or the algorithm alone | [`SystemUnderTest`]: [`StoreSubject`], [`Pure`] or your own |
//! | test calendar windows without time zone data | [`calendars`] |
//! | check decisions against an independent oracle | [`oracle`] |
//! | compare two systems on random timelines | [`timeline`] |
//! | run timelines and report the first difference of each | [`run`] |
//!
//! The corpora in `tests/data` of the repository specify what a store decides. A scenario is parsed and run as follows:
//!
//! ```
//! use portcullis_testing::{Pure, Scenario, run};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::parse(
//!     "burst.toml",
//!     r#"
//!     [[case]]
//!     name = "burst, then one at a time"
//!     policy = { strategy = "gcra", limit = 2, period = "1s", burst = 2 }
//!     steps = [
//!       { at = "0s", cost = 2, allow = true, remaining = 0, reset_after = "1s" },
//!       { at = "499999us", allow = false, retry_after = "1us" },
//!       { at = "500ms", allow = true, remaining = 0 },
//!     ]
//!     "#,
//! )?;
//! let report = run(scenario.cases(), &mut Pure::new()).await;
//! assert!(report.is_success(), "{report}");
//! # Ok(())
//! # }
//! ```
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod calendars;
pub mod oracle;
mod runner;
pub mod scenario;
mod subject;
pub mod timeline;

pub use calendars::calendars;
pub use portcullis_core::ManualClock;
pub use runner::{Failure, Report, Skipped, run, run_in};
pub use scenario::{Case, Scenario, ScenarioError};
pub use subject::{Checked, OverrideChange, Pure, StoreSubject, SubjectFuture, SystemUnderTest};
