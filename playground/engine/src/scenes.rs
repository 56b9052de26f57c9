//! The scenes that are built in.

/// A list in JSON.
pub(crate) const BUILT_IN: &str = include_str!("scenes.json");
