//! The arithmetic of rate limiting, and its vocabulary.
//!
//! This crate decides. It reads no clock, opens no socket and spawns no task. Time comes in as a [`Timestamp`], state
//! comes in as a value, and the same inputs give the same [`Decision`] on every machine.
//!
//! | type | meaning |
//! |---|---|
//! | [`Quota`] | a number of units per period and, for rate-based algorithms, a burst |
//! | [`Strategy`] | an algorithm with its parameters |
//! | [`Policy`] | a named strategy |
//! | [`Key`] | the identity that is charged: a keyed fingerprint, written by a [`KeyWriter`] |
//! | [`Checks`](store::Checks) | the input of a decision: policies, keys and costs, charged together or not at all |
//! | [`Decision`], [`Outcome`](store::Outcome) | the result of a decision |
//! | [`Receipt`] | proof of charges, used once to refund or settle them |
//! | [`Store`](store::Store) | keeps state and decides atomically |
//!
//! With the feature `serde`, quotas, strategies, failure modes, policies and their names are read from configuration files and written
//! to them; [`Policy`] describes the form.
//!
//! Most names are in the root. [`store`] is for writers of stores, [`algorithm`] for code that inspects states, [`lease`] for
//! stores that lease units to processes, [`overrides`] for grants and blocks of single keys.
//!
//! ```
//! use portcullis::{Policy, Quota, Timestamp};
//!
//! // A burst of two, then one unit every half second.
//! const LOGIN: Policy = Policy::gcra("login", Quota::per_second(2).burst(2));
//!
//! let now = Timestamp::from_micros(1_767_225_600_000_000);
//! let first = LOGIN.strategy().decide(None, now, 2);
//! assert!(first.admitted);
//!
//! let second = LOGIN.strategy().decide(first.after.as_ref(), now, 1);
//! assert!(!second.admitted);
//! ```
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, clippy::float_arithmetic))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod algorithm;
mod charge;
mod clock;
mod compact;
mod decision;
mod key;
pub mod lease;
mod mistakes;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod outage;
pub mod overrides;
mod policy;
mod quota;
mod receipt;
mod refund;
#[cfg(feature = "serde")]
mod serde_form;
pub mod store;
mod strategy;
mod time;

pub use algorithm::calendar_window::{CalendarWindow, WindowTable, WindowTableError};
pub use algorithm::fixed_window::{Anchor, FixedWindow};
pub use algorithm::gcra::Gcra;
pub use algorithm::in_flight::InFlight;
pub use algorithm::leaky_bucket::LeakyBucket;
pub use algorithm::sliding_log::SlidingLog;
pub use algorithm::sliding_window::SlidingWindow;
pub use algorithm::snapshot::Retry;
pub use algorithm::token_bucket::{Refill, TokenBucket};
pub use clock::{Clock, ManualClock};
pub use decision::{Decision, Verdict};
pub use key::{Key, KeyHasher, KeyWriteError, KeyWriter, Secret, SecretError};
pub use mistakes::Mistakes;
#[doc(hidden)]
pub use mistakes::or_panic;
pub use policy::{
    CallerQuotaError, CallerQuotasError, Concurrency, DebtError, FailureMode, FailureModeError, LeaseError,
    Policy, PolicyError, PolicyName, PolicyNameError, PolicyPartError, PolicySettings, WaitError,
};
pub use quota::{ParseQuotaError, Quota, QuotaError};
pub use receipt::{Receipt, Settlement};
pub use store::{ChecksError, StoreError, StoreErrorKind, TooMuchWork};
pub use strategy::Strategy;
pub use time::Timestamp;
