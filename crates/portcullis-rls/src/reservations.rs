//! Reservations: units that are charged before they are used, and settled at what was used.
//!
//! ```text
//! reserve ──► open ──► commit ──────► settled, and its answer kept for the time of the reservation
//!              │          ▲
//!              │          └ claimed first, in the store if instances share it, so that one alone settles
//!              └─ at its end ──► settled as the rule says
//! ```
//!
//! A reservation is kept by the instance that made it, which settles it at its end. Instances that share a store can commit each other's: a
//! record in the store has the receipts.

mod calls;
mod commit;
mod expiry;
mod open;
mod record;
mod registry;

use std::sync::{Arc, OnceLock};

use registry::Registry;

pub use registry::MAX_RESERVATIONS;

/// The reservations of a service. Nothing is kept before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations(Arc<OnceLock<Arc<Registry>>>);

impl Reservations {
    fn registry(&self) -> &Arc<Registry> {
        self.0.get_or_init(Arc::default)
    }
}
