//! Everything that may have to be awaited, and what it leaves behind.

mod abandoned;
mod attempt;
mod each;
mod late;
mod patience;
mod refunds;
mod shadows;
mod slot;

pub use attempt::{Admitted, Attempt};
pub use patience::Patience;
pub use refunds::{Keep, Refunds};
