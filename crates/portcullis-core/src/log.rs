//! Decides when a crate logs a repeated event. Hidden: for the crates of this workspace.

mod outage;
mod throttle;

pub use outage::Outage;
pub use throttle::LogThrottle;
