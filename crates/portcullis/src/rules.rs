//! Rules in files, which change while they limit requests. See [`Limiter::with_rules`](crate::Limiter::with_rules).

pub use portcullis_config::*;
