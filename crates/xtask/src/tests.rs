//! Pages of the reference that are compared with manifests and sources.
//!
//! With `UPDATE_REFERENCE` in the environment, the test of the features writes its page instead of comparing it.

mod faults;
mod features;
mod limits;
mod redis;
