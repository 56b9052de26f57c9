//! Rules in files, which change while they limit requests. See [`Limiter::with_rules`](crate::Limiter::with_rules).

#[cfg(feature = "signed-rules")]
pub use portcullis_config::remote;
pub use portcullis_config::{
    Diagnostic, Diagnostics, Door, FileId, Format, LiveRules, Loader, Location, Match, NoRules, ReloadError,
    Rule, RuleSet, Rules, RulesClients, RulesLayer, RulesRequirement, RulesService, Severity, Source,
    Sources, Span, Tier, UnknownRule, Watch, WatchError, WatchHandle, WatchOptions, diagnostic, envoy,
    schema,
};
