//! Decides about requests from data, for the doors of [Portcullis](https://docs.rs/portcullis).
//!
//! A door has [`Limits`]: policies as they are now. It makes an [`Ask`] of keys and costs, decides it [at once](now::decide) or by an
//! `Attempt`, and renders the answer. Nothing here knows HTTP.
//!
//! # Features
//!
//! `runtime`, on by default, has all that waits or runs in a task, on Tokio: `Attempt`, refunds of requests that are gone, permits of requests
//! in flight, the log. Without it a request is decided [at once](now::decide), by a clock that is given: in a browser, for example.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "runtime"), expect(dead_code, reason = "what only a request that waits needs"))]

/// Implements `Debug` by the name alone, for types that lead to the whole limiter.
macro_rules! opaque_debug {
    ($($type:ident),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )+};
}

pub mod charge;
#[cfg(feature = "runtime")]
mod clock;
pub mod decide;
pub mod engine;
mod error;
pub mod event;
mod limit;
pub mod policies;
#[cfg(feature = "runtime")]
pub mod task;

pub use charge::{Asked, LaterCharge};
#[cfg(feature = "runtime")]
pub use clock::RuntimeClock;
#[cfg(feature = "runtime")]
pub use decide::{Admitted, Attempt, Keep, Patience, Refunds};
pub use decide::{Ask, Now, Rejected, StoreCall, now};
#[cfg(feature = "runtime")]
pub use engine::PoliciesInUse;
pub use engine::{
    BlockReach, BlockedClient, CallerPolicies, CallerQuotas, Engine, FOLLOW_EVERY, Limits, Signals, report,
};
pub use error::{
    LayerError, LayerOptionError, MAX_RETRY_SPREAD, OverridingError, PolicyConflict, QuotaRefusal,
};
#[cfg(feature = "runtime")]
pub use event::EventLog;
pub use event::{
    Class, Event, EventKeys, EventKind, Fingerprint, FingerprintError, FoundKeys, LayerPolicies, Observer,
    Reason, Route, SettlementLoss, SpanFields, Uncounted, UsageLoss,
};
pub use limit::{
    HeldUntil, Limit, Mode, OnAbort, OnMissing, ParseModeError, Percent, PercentError, PolicyLockOut,
    PolicySet, is_in_flight,
};
pub use policies::{InstalledPolicy, Member, Membership, Registered, reading_overrides};
