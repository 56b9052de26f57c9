//! What answers the routes.

pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod reads;
