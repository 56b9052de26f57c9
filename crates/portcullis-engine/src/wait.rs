//! The requests that wait: for a slot in a queue, or for a window, bounded in total and per key.

pub mod keyed_limit;
pub mod slots;
pub mod windows;
