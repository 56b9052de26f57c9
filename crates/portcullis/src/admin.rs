//! The admin API: an Axum router that shows what a limiter does, and changes it. See [`Limiter::admin`](crate::Limiter::admin) and the
//! [routes].

pub use portcullis_admin::{Actor, Admin, HostError, HostList, Refused, has_bearer_token};
