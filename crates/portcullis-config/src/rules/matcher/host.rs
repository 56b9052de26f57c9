//! Patterns of hosts.

use std::collections::HashSet;
use std::fmt;

use http::request::Parts;
use portcullis_tower::matching::{hosts, is_host_name};

/// `api.example.com`, or `*.example.com` for all names below `example.com`. In lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostPattern {
    Name(Box<str>),
    /// With its dot: `.example.com`.
    Below(Box<str>),
}

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no host: write a name without a port, such as `api.example.com`, or `*.example.com` for all names below it"
)]
pub(crate) struct HostError {
    text: String,
}

impl std::str::FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let is_address = name.starts_with('[') && name.ends_with(']');
        if !is_address && !is_host_name(name) {
            return Err(HostError { text: text.to_owned() });
        }
        let lower = text.to_ascii_lowercase();
        Ok(match lower.strip_prefix('*') {
            Some(below) => Self::Below(below.into()),
            None => Self::Name(lower.into()),
        })
    }
}

impl HostPattern {
    pub(super) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => name.eq_ignore_ascii_case(host),
            Self::Below(suffix) => host.len().checked_sub(suffix.len()).is_some_and(|at| {
                at > 0
                    && host
                        .as_bytes()
                        .get(at..)
                        .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
            }),
        }
    }

    /// Whether a request names such a host, in its URI or in a header `Host`.
    pub(crate) fn matches_request(&self, parts: &Parts) -> bool {
        hosts(parts).any(|host| self.matches(host))
    }

    /// A host that it matches, and that no other pattern matches except those that cover it.
    pub(crate) fn representative(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            // No name of a file has a space.
            Self::Below(suffix) => format!(" {suffix}"),
        }
    }
}

/// Some patterns, of which those that match are found without a comparison with each.
pub(super) struct HostSet<'p> {
    names: HashSet<&'p str>,
    /// With their dots.
    suffixes: HashSet<&'p str>,
}

impl<'p> HostSet<'p> {
    pub(super) fn new(patterns: &'p [HostPattern]) -> Self {
        let mut set = Self { names: HashSet::new(), suffixes: HashSet::new() };
        for pattern in patterns {
            match pattern {
                HostPattern::Name(name) => set.names.insert(name),
                HostPattern::Below(suffix) => set.suffixes.insert(suffix),
            };
        }
        set
    }

    /// Whether one of the patterns matches a host in lower case.
    pub(super) fn matches(&self, host: &str) -> bool {
        let mut dots = host.match_indices('.').filter(|(at, _)| *at > 0);
        self.names.contains(host)
            || dots.any(|(at, _)| host.get(at..).is_some_and(|suffix| self.suffixes.contains(suffix)))
    }
}

/// Whether a request has at most one host.
pub(crate) fn is_one(parts: &Parts) -> bool {
    let mut names = hosts(parts);
    names.next().is_none_or(|first| names.all(|other| other.eq_ignore_ascii_case(first)))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Below(suffix) => write!(f, "*{suffix}"),
        }
    }
}
