//! Decides about a request from data: keys and costs under the policies of its limits. Nothing here knows HTTP.
//!
//! ```text
//! Ask ──► now::decide ──► Now::One | Now::All | Now::Rejected    the store answers at once, and nothing has to be waited for
//!              └────────► Now::Later ──► Attempt::check ──► Attempt::admit ──► Admitted | Rejected
//! ```
//!
//! A door makes an [`Ask`] of what it has received, and renders the answer. An `Attempt` may check several times: before a look-up
//! of the door, and after it.

mod ask;
mod call;
#[cfg(feature = "runtime")]
mod later;
pub mod now;
mod rejected;

pub use ask::Ask;
pub use call::StoreCall;
#[cfg(feature = "runtime")]
pub use later::{Admitted, Attempt, Keep, Patience, Refunds};
pub use now::Now;
pub use rejected::Rejected;
