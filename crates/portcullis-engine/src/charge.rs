//! What requests were charged, and what they owe: receipts, permits of requests in flight, settlements.

mod basis;
mod ledger;
pub mod permits;
pub mod settler;

use portcullis_core::StoreError;

pub use basis::{ChargeBasis, Charged, ChargedCheck};
pub use ledger::{ChargeLedger, Correction};

/// Why a charge cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeError {
    /// The charge was refunded or settled before, which is possible once.
    #[error("the charge is settled already")]
    Settled,
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
