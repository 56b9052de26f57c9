//! The admin API: an Axum router that shows what a limiter does, and changes it. See [`Limiter::admin`](crate::Limiter::admin) and the
//! [guide](crate::guide::admin).

pub use portcullis_admin::{Actor, Admin, HostError, HostList, Refused, has_bearer_token};
