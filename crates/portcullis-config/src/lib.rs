#![doc = include_str!("../README.md")]

pub mod diagnostic;
mod door;
pub mod envoy;
mod fields;
mod findings;
mod hooks;
mod kind;
mod live;
mod load;
#[cfg(test)]
mod mistakes;
#[cfg_attr(
    not(feature = "signed"),
    allow(dead_code, unreachable_pub, reason = "without signed documents nothing changes files")
)]
mod overlay;
#[cfg(feature = "signed")]
pub mod remote;
mod rules;
mod schema;
#[cfg(feature = "signed")]
mod signed;
mod source;
mod tables;
mod text;
mod tree;
#[cfg(feature = "watch")]
mod watch;
mod yaml;

pub use diagnostic::{Diagnostic, Diagnostics, Location, Severity};
pub use door::Door;
pub use live::{
    LiveRules, NoRules, ReloadError, RulesClients, RulesLayer, RulesRequirement, RulesService, UnknownRule,
};
pub use load::Loader;
pub use rules::{Match, Rule, RuleSet, Rules, Tier};
pub use schema::schema;
pub use source::{FileId, Format, Source, Sources, Span};
#[cfg(feature = "watch")]
pub use watch::{Watch, WatchError, WatchHandle, WatchOptions};
