//! Servers of the rate limiter, for services that do not contain it: each is the engine of [`portcullis`] behind another protocol.

pub mod check;
mod places;
pub mod proxy;
pub mod rls;
pub mod serve;
