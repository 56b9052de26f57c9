//! The commands of this program alone.

pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod identify;
pub(crate) mod proto;
pub(crate) mod proxy;
pub(crate) mod replay;
pub(crate) mod rules;
pub(crate) mod serve;
