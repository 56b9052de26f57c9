//! Why rules cannot be used or replaced.

use portcullis_tower::LayerError;

use crate::Diagnostics;

/// The rules have no rule of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule {rule}: {}", list(known))]
pub struct UnknownRule {
    rule: String,
    known: Vec<String>,
}

impl UnknownRule {
    pub(super) fn new<'a>(rule: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let mut known: Vec<_> = known.map(str::to_owned).collect();
        known.sort();
        known.dedup();
        Self { rule: rule.to_owned(), known }
    }

    /// Returns the name that is unknown.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        "there are no rules".to_owned()
    } else {
        format!("the rules are {}", known.join(", "))
    }
}

/// A limiter was not given rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limiter has no rules: give it some by `Limiter::with_rules`")]
pub struct NoRules;

/// Why rules were not reloaded. The former ones stay.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The files have errors.
    #[error("{0}")]
    Invalid(Diagnostics),
    /// The limiter cannot have the rules.
    #[error(transparent)]
    Refused(#[from] LayerError),
    /// The files have no policies, and the current rules have some. A file that is being written is empty at first.
    #[error(
        "the file has no policies, so all limits would end: write mode = \"off\" for a policy that is not to limit"
    )]
    NoPolicies,
    /// Other rules were [swapped](crate::LiveRules::swap) in each time that the files had been read.
    #[error("the rules were replaced all the time while their files were read")]
    Interrupted,
}
