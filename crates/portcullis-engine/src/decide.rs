//! Decides about a request from data: keys and costs under the policies of its limits. Nothing here knows HTTP.
//!
//! ```text
//! Ask ──► now::decide ──► Now::One | Now::All | Now::Rejected    the store answers at once, and nothing has to be waited for
//!              └────────► Now::Later ──► Attempt::check ──► Attempt::admit ──► Admitted | Rejected
//! ```
//!
//! A door makes an [`Ask`] of what it has received, and renders the answer. An [`Attempt`] may check several times: before a look-up
//! of the door, and after it.

mod ask;
mod attempt;
mod call;
mod denial_reports;
mod each;
mod late;
mod later_charge;
pub mod now;
mod patience;
mod refunds;
mod rejected;
mod shadows;
mod slot;
mod window;

pub use ask::Ask;
pub use attempt::{Admitted, Attempt};
pub use call::StoreCall;
pub use later_charge::LaterCharge;
pub use now::Now;
pub use patience::Patience;
pub use refunds::{Keep, Refunds};
pub use rejected::Rejected;
