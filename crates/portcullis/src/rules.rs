//! Rules in files, which change while they limit requests. See [`Limiter::rules`](crate::Limiter::rules).

pub use portcullis_config::*;
