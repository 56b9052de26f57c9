//! The serde forms of quotas, strategies, failure modes and policies, for configuration files.
//!
//! Every form is read by hand instead of a derived implementation: the fields of a strategy stand beside those of its policy, which
//! derived implementations support only without a check for unknown fields. An error is raised while the field or value at
//! fault is read, where possible, so that the format can report its position.

mod failure;
mod fields;
mod kind;
mod policy;
mod quota;
mod strategy;
mod values;
mod windows;

#[cfg(test)]
mod tests;
