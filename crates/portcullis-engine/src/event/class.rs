//! The classes of requests, of which an overloaded service rejects the lowest first.

/// How important a request is. Under overload, the lowest class is rejected first.
///
/// ```
/// use portcullis::shed::Class;
///
/// assert!(Class::Background < Class::Default && Class::Default < Class::Critical);
/// assert_eq!(Class::default(), Class::Default);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What can be done later: crawlers, prefetching, batches.
    Background,
    /// What no rule names.
    #[default]
    Default,
    /// What the service exists for, and what keeps it running: payments, logins, health checks.
    Critical,
}

impl Class {
    /// All classes, the lowest first.
    pub const ALL: [Self; 3] = [Self::Background, Self::Default, Self::Critical];

    /// Returns the name, in lower case, as in labels of metrics and in headers (`ShedLayer::trust_class_header`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Default => "default",
            Self::Critical => "critical",
        }
    }
}
