//! What protects callers from a server that does not answer, and a server from too many calls.

pub(crate) mod breaker;
pub(crate) mod call_timer;
pub(crate) mod combining;
pub(crate) mod deadline;
pub(crate) mod in_flight;
pub(crate) mod jitter;
pub(crate) mod liveness;
pub(crate) mod outage_log;
pub(crate) mod overtime;
pub(crate) mod watch;
