//! A limit of a file.

use std::time::Duration;

use portcullis_core::{FixedWindow, Policy, PolicyName, PolicySettings, Quota};

use super::metadata::Metadata;

/// The unit of time of a limit: how long its windows are.
///
/// The windows begin at the multiples of their length since the Unix epoch, so that a week begins on a Thursday at 00:00 UTC. As in Envoy's
/// service, months have 30 days and years 365, whatever the calendar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All units, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The length of a window.
    pub const fn duration(self) -> Duration {
        const DAY: u64 = 24 * 60 * 60;
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        })
    }

    /// The name in files, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit with this name, in upper or lower case.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let name = name.to_uppercase();
        Self::ALL.into_iter().find(|unit| unit.as_str().to_uppercase() == name)
    }
}

/// Why a limit has no policy: it needs no state to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPolicy {
    /// `unlimited: true`: every request is admitted, and nothing is counted.
    #[error("the limit is unlimited: every request is admitted")]
    Unlimited,
    /// `requests_per_unit: 0`: every request with a cost of 1 or more is denied.
    #[error("the limit is 0: every request with a cost is denied")]
    AlwaysDenied,
}

/// The `rate_limit` of a descriptor, with the flags of the descriptor that apply to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub(super) key: String,
    pub(super) policy: Result<Policy, NoPolicy>,
    pub(super) policy_name: PolicyName,
    pub(super) requests_per_unit: u32,
    pub(super) unit: Option<Unit>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) detailed_metric: bool,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
    pub(super) metadata: Metadata,
}

impl Limit {
    /// The key in the file: the domain, then key and value of each level, such as `shop.user_ada.route`. Two limits can have the
    /// same key: `a.b` is the key `b` in `a`, and also the key `a.b`.
    ///
    /// [`Match::full_key`](super::Match::full_key) is the key of a request, which may have more values.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The number of requests per [`unit`](Limit::unit). It has no meaning if the limit is [unlimited](Limit::is_unlimited).
    pub const fn requests_per_unit(&self) -> u32 {
        self.requests_per_unit
    }

    /// The unit of time. `None` if the limit is [unlimited](Limit::is_unlimited).
    pub const fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// Whether requests are admitted without being counted.
    pub const fn is_unlimited(&self) -> bool {
        self.unit.is_none()
    }

    /// Whether the limit is only observed: it counts requests and never denies them.
    pub const fn shadow_mode(&self) -> bool {
        self.shadow_mode
    }

    /// Whether the limit is one of several quotas of a request: the request is denied by them only if all of them are used up. See
    /// [`RequestLimits::is_over_limit`](super::RequestLimits::is_over_limit).
    pub const fn quota_mode(&self) -> bool {
        self.quota_mode
    }

    /// Whether the key for metrics contains the values of the request.
    pub const fn detailed_metric(&self) -> bool {
        self.detailed_metric
    }

    /// The name by which other limits [replace](Limit::replaces) this one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The names of the limits that do not apply to a request to which this one applies.
    pub fn replaces(&self) -> &[String] {
        &self.replaces
    }

    /// The metadata of the descriptor, for the response to requests that the limit admits. Empty if there are none.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The name of the policy: the [key](Limit::key), if it is a valid name and no other limit has it. Otherwise the key is shortened
    /// and ends in a hash of all its parts.
    ///
    /// The names of different limits differ, and a limit has the same name whenever the same files are loaded.
    pub const fn policy_name(&self) -> &PolicyName {
        &self.policy_name
    }

    /// The limit as a policy: a fixed window that is aligned to the Unix epoch, with the default failure mode.
    ///
    /// [`shadow_mode`](Limit::shadow_mode) is not part of it.
    ///
    /// # Errors
    ///
    /// If the limit needs no state: it is unlimited, or it denies everything.
    pub fn policy(&self) -> Result<&Policy, NoPolicy> {
        self.policy.as_ref().map_err(|none| *none)
    }

    /// Like [`policy`](Limit::policy), under another name.
    ///
    /// # Errors
    ///
    /// If the limit needs no state: it is unlimited, or it denies everything.
    pub fn policy_named(&self, name: PolicyName) -> Result<Policy, NoPolicy> {
        self.policy().map(|policy| Policy::new(name, *policy.strategy()))
    }
}

/// The policy of a limit.
pub(super) fn policy(
    name: &PolicyName,
    requests_per_unit: u32,
    unit: Option<Unit>,
) -> Result<Policy, NoPolicy> {
    let unit = unit.ok_or(NoPolicy::Unlimited)?;
    if requests_per_unit == 0 {
        return Err(NoPolicy::AlwaysDenied);
    }
    let window = Quota::new(u64::from(requests_per_unit), unit.duration(), None).and_then(FixedWindow::new);
    Policy::try_new(name.as_str(), window, PolicySettings::default()).map_err(|_| NoPolicy::AlwaysDenied)
}
