//! What requests were charged.

mod asked;
mod basis;
mod later;
mod ledger;
mod mark;

use portcullis_core::StoreError;

pub use asked::Asked;
pub use basis::{ChargeBasis, Charged, ChargedCheck};
pub use later::LaterCharge;
pub use ledger::{ChargeLedger, Correction};
pub use mark::{Mark, Marks};

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
