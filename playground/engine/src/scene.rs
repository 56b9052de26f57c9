//! Scenes: what is sent, and the lanes that decide about it.

mod calendar;
mod check;
mod object;

use portcullis_core::{Policy, Quota};
use portcullis_engine::Class;
use portcullis_response::RateLimitHeaders;
use serde::{Deserialize, Deserializer};

use object::{Object, read_from_objects};

pub(crate) use calendar::windows;

read_from_objects!(Scene, Client, Stream, LaneSettings, LimitSettings, Service, Shedding);

/// A scene. Its times are milliseconds.
#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Scene {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) title: String,
    /// One sentence, for people.
    #[serde(default)]
    pub(crate) note: String,
    #[serde(default)]
    pub(crate) seed: u64,
    pub(crate) duration: u64,
    /// Since the Unix epoch.
    #[serde(default = "new_year")]
    pub(crate) start: u64,
    pub(crate) clients: Vec<Client>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) lanes: Vec<LaneSettings>,
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// What a request costs.
    #[serde(default = "one")]
    pub(crate) cost: u64,
    #[serde(default, deserialize_with = "class")]
    pub(crate) class: Class,
}

/// Requests of one client.
#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Stream {
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) client: usize,
    #[serde(default)]
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    pub(crate) rate: Option<Quota>,
    #[serde(default)]
    pub(crate) at: Vec<u64>,
    pub(crate) count: Option<u64>,
    /// The time over which a burst is spread, or the distance from an edge.
    #[serde(default)]
    pub(crate) over: u64,
    pub(crate) period: Option<u64>,
    /// How many programs of the client send at once, and retry on their own.
    pub(crate) members: Option<u32>,
    /// How often a member sends at most.
    pub(crate) attempts: Option<u32>,
    pub(crate) cost: Option<u64>,
    /// How long a request runs, from and to.
    #[serde(default)]
    pub(crate) takes: [u64; 2],
    /// What a request turns out to cost when it ends, from and to.
    pub(crate) uses: Option<[u64; 2]>,
    /// Lines of an access log.
    #[serde(default)]
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Constant,
    Poisson,
    Burst,
    Edge,
    Herd,
    Clicks,
    Log,
}

/// What decides about the requests.
#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct LaneSettings {
    pub(crate) name: String,
    /// One sentence, for people.
    #[serde(default)]
    pub(crate) note: String,
    #[serde(default)]
    pub(crate) limits: Vec<LimitSettings>,
    #[serde(default)]
    pub(crate) headers: Dialect,
    #[serde(default)]
    pub(crate) store: StoreKind,
    #[serde(default = "one_instance")]
    pub(crate) instances: u32,
    #[serde(default)]
    pub(crate) balance: Balance,
    /// When no instance reaches Redis, from and to.
    #[serde(default)]
    pub(crate) outages: Vec<[u64; 2]>,
    /// The time over which `Retry-After` is spread.
    #[serde(default)]
    pub(crate) spread: u64,
    pub(crate) service: Option<Service>,
    pub(crate) shed: Option<Shedding>,
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct LimitSettings {
    #[serde(deserialize_with = "policy")]
    pub(crate) policy: Policy,
    #[serde(default)]
    pub(crate) key: KeyKind,
    /// Whether a request is settled at what it turned out to cost.
    #[serde(default)]
    pub(crate) settle: bool,
}

/// Whose budget it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyKind {
    #[default]
    Client,
    All,
}

/// Where the states are.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreKind {
    /// In one Redis. Policies with a lease are paid from leases of each instance.
    #[default]
    Shared,
    /// In each instance, which has its share of the limit.
    Share,
}

/// To which instance a request goes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Balance {
    #[default]
    Turns,
    Random,
    Sticky,
}

/// What the requests need: a place of `workers` for the time that they take.
#[derive(Clone, Copy, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) workers: u32,
}

/// How load is shed. Fractions are in thousandths.
#[derive(Clone, Copy, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Shedding {
    /// The range of the limit on requests in flight.
    pub(crate) limit: [u32; 2],
    #[serde(default = "reserved")]
    pub(crate) reserved_for_critical: u32,
    #[serde(default = "reserved_from_background")]
    pub(crate) reserved_from_background: u32,
    #[serde(default = "tolerated")]
    pub(crate) tolerated_latency: u32,
}

/// Which headers show a budget, by its name in rules.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Dialect {
    None,
    #[default]
    #[serde(rename = "x-ratelimit")]
    XRateLimit,
    #[serde(rename = "x-ratelimit-unix-time")]
    UnixTime,
    Ietf,
    #[serde(rename = "ietf-draft-6")]
    IetfDraft6,
    ByPolicy,
}

impl Dialect {
    pub(crate) fn headers(self) -> RateLimitHeaders {
        match self {
            Self::None => RateLimitHeaders::NONE,
            Self::XRateLimit => RateLimitHeaders::X_RATELIMIT,
            Self::UnixTime => RateLimitHeaders::X_RATELIMIT.reset_as_unix_time(),
            Self::Ietf => RateLimitHeaders::IETF,
            Self::IetfDraft6 => RateLimitHeaders::IETF_DRAFT_6,
            Self::ByPolicy => RateLimitHeaders::BY_POLICY,
        }
    }

    /// The name in rules, and the expression in code.
    pub(crate) fn names(self) -> [&'static str; 2] {
        match self {
            Self::None => ["none", "RateLimitHeaders::NONE"],
            Self::XRateLimit => ["x-ratelimit", "RateLimitHeaders::X_RATELIMIT"],
            Self::UnixTime => ["x-ratelimit-unix-time", "RateLimitHeaders::X_RATELIMIT.reset_as_unix_time()"],
            Self::Ietf => ["ietf", "RateLimitHeaders::IETF"],
            Self::IetfDraft6 => ["ietf-draft-6", "RateLimitHeaders::IETF_DRAFT_6"],
            Self::ByPolicy => ["by-policy", "RateLimitHeaders::BY_POLICY"],
        }
    }
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    Policy::deserialize_with_windows(Object(deserializer), windows)
}

fn class<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Class, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = Class::ALL.into_iter().find(|class| class.as_str() == name);
    found.ok_or_else(|| {
        let message = format!("unknown class `{name}`, expected `critical`, `default` or `background`");
        serde::de::Error::custom(message)
    })
}

/// 2026-01-01T00:00:00Z.
fn new_year() -> u64 {
    1_767_225_600_000
}

fn one() -> u64 {
    1
}

fn one_instance() -> u32 {
    1
}

fn reserved() -> u32 {
    200
}

fn reserved_from_background() -> u32 {
    500
}

fn tolerated() -> u32 {
    2_000
}
