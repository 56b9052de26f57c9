#![doc = include_str!("scenario/format.md")]

mod build;
mod overrides;
mod raw;
mod source;
mod strategy;
mod values;

pub(crate) use build::with_strategy;

use std::path::Path;
use std::time::Duration;

use portcullis_core::{Policy, Retry, Strategy, Timestamp};

use crate::subject::OverrideChange;
use source::SourceFile;

/// The cases of one file.
///
/// ```
/// use portcullis_testing::Scenario;
///
/// let error = Scenario::parse(
///     "bad.toml",
///     r#"
/// [[case]]
/// name = "no such strategy"
/// policy = { strategy = "leaky_can", limit = 1, period = "1s" }
/// steps = []
/// "#,
/// )
/// .unwrap_err();
/// let text = error.to_string();
/// assert!(text.starts_with("bad.toml:4:23: case \"no such strategy\": "), "{text}");
/// assert!(text.contains("`gcra`") && text.contains("`fixed_window`"), "{text}");
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    file: String,
    cases: Vec<Case>,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or does not have the [format](self).
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let file = path.as_ref().display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(ScenarioError::Unreadable { file, error }),
        }
    }

    /// Parses a text. `file` is its name in errors and reports.
    ///
    /// # Errors
    ///
    /// If it does not have the [format](self). The error names the file, the position and the case.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = SourceFile { file, text };
        let cases = build::cases(source)?;
        Ok(Self { file: file.to_owned(), cases })
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The cases, in the order of the file. There is at least one.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}

/// One timeline and what is expected on it.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    file: String,
    pub(crate) policies: Vec<Policy>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// The name of the case, which describes what it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the file that contains the case.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The policies that are checked together, with their initial quotas.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        error: std::io::Error,
    },
    /// The file does not have the format.
    #[error("{file}:{line}:{column}: {}{message}", in_case(case.as_ref()))]
    Malformed {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// The name of the case, if it is known.
        case: Option<String>,
        /// What is wrong.
        message: String,
    },
}

fn in_case(case: Option<&String>) -> String {
    case.map(|case| format!("case {case:?}: ")).unwrap_or_default()
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) at: Timestamp,
    /// The key that is charged or peeked at.
    pub(crate) key: String,
    pub(crate) action: Action,
    pub(crate) expected: Expected,
}

/// Policies and steps are given by their index, counted from 0. Denials may begin a block of the length `blocked_for`.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Check { costs: Vec<u64>, allow: bool },
    Refund { steps: Vec<usize>, policy: Option<usize>, if_newest: bool },
    Settle { steps: Vec<usize>, policy: Option<usize>, cost: u64 },
    Renew { steps: Vec<usize>, policy: Option<usize> },
    Reset { policy: Option<usize> },
    SetQuota { policy: usize, to: Strategy },
    Override { policy: usize, change: OverrideChange, blocked_for: Option<Duration> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) limit: Option<u64>,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after: Option<Retry>,
    pub(crate) reset_after: Option<Duration>,
    pub(crate) next_after: Option<Duration>,
    pub(crate) delay: Option<Duration>,
    pub(crate) decided_by: Option<String>,
    pub(crate) blocked: Option<bool>,
    pub(crate) uncharged: Option<u64>,
    pub(crate) held: Option<u64>,
}

impl Expected {
    /// Whether any field of a decision is expected.
    pub(crate) fn expects_decision(&self) -> bool {
        let decision = Self { uncharged: None, held: None, ..self.clone() };
        decision != Self::default()
    }
}
