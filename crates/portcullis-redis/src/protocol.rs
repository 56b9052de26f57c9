//! What the store and the server send each other. Pure: no connection, no clock, no async runtime.

pub(crate) mod keys;
pub(crate) mod node_addr;
pub(crate) mod override_record;
pub(crate) mod script;
pub(crate) mod scripts;
pub(crate) mod slot;
pub(crate) mod value;
pub(crate) mod wire;
