//! A layer as an application may set it up.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Method};
use portcullis_core::{
    FailureMode, FixedWindow, Gcra, Policy, PolicySettings, Quota, Secret, SlidingWindow, Strategy,
    TokenBucket,
};
use portcullis_tower::{
    Bearer, ClientIp, Cookie, Extension, Global, Header, Identity, KeyError, KeyExtractor as _, KeyWriter,
    Limit, Lookup, OnMissing, Query, RateLimitLayer, Registry, Route,
};

use super::store::Recorder;
use crate::bytes::Bytes;

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) limits_preflights: bool,
    pub(super) wrapping: Wrapping,
    pub(super) policies: Vec<Plan>,
}

/// The body wrapper of another layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrapping {
    None,
    Limited,
    Boxed,
}

/// One policy.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) policy: Policy,
    /// `None` for the key of the previous policy.
    key: Option<KeyKind>,
    /// The key, with that of the previous policy filled in.
    pub(super) resolved: KeyKind,
    pub(super) on_missing: OnMissing,
    pub(super) cost: Cost,
    pub(super) is_shadow: bool,
    pub(super) is_closed: bool,
    counts_rejections: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Address,
    ApiKey,
    Bearer,
    Cookie,
    Query,
    User,
    Global,
    /// Exempt if authentication has found the monitoring, else by address.
    MonitoringOrAddress,
    ApiKeyOrAddress,
    UserAndMethod,
    LookedUp,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    One,
    ByTarget,
    ByMethod,
}

impl Cost {
    pub(super) fn of(self, method: &Method, path: &str) -> u64 {
        match self {
            Self::One => 1,
            Self::ByTarget => match path {
                "/free" => 0,
                "/export" => 3,
                "*" => 100,
                _ => 1,
            },
            Self::ByMethod => u64::from(*method == Method::OPTIONS) + 1,
        }
    }
}

/// The user that authentication has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct User(pub(super) u8);

/// The application's own monitoring, identified by authentication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Monitoring;

impl Setup {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let shape = bytes.byte();
        let mut policies: Vec<Plan> = Vec::new();
        for index in 0..=(shape >> 4) % 4 {
            let previous = policies.last().map(|plan| plan.resolved);
            policies.push(Plan::read(bytes, index, previous));
        }
        let wrapping = match shape & 3 {
            0 | 1 => Wrapping::None,
            2 => Wrapping::Limited,
            _ => Wrapping::Boxed,
        };
        Self { limits_preflights: shape & 0x0c == 0x0c, wrapping, policies }
    }

    pub(super) fn layer(&self, store: Arc<Recorder>) -> RateLimitLayer {
        let registry = Arc::new(Registry::new(store, Secret::published()));
        let limits = self.policies.iter().map(Plan::limit);
        let layer = RateLimitLayer::try_new(registry, limits).expect("the limits are valid");
        let layer = layer.lookup_deadline(Duration::from_millis(10));
        if self.limits_preflights { layer.limit_preflights() } else { layer }
    }
}

impl Plan {
    fn read(bytes: &mut Bytes<'_>, index: u8, previous: Option<KeyKind>) -> Self {
        let (kind, key, more) = (bytes.byte(), bytes.byte(), bytes.byte());
        let quota = Quota::per_hour(u64::from(kind >> 4) % 7 + 1);
        let name = format!("p{index}");
        let strategy: Result<Strategy, _> = match kind % 4 {
            0 => FixedWindow::new(quota).map(Into::into),
            1 => Gcra::new(quota.burst(2)).map(Into::into),
            2 => SlidingWindow::new(quota).map(Into::into),
            _ => TokenBucket::new(quota).map(Into::into),
        };
        let is_closed = more & 64 == 0;
        let failure_mode = if is_closed { FailureMode::Closed } else { FailureMode::Open };
        let settings = PolicySettings { failure_mode, ..PolicySettings::default() };
        let policy = Policy::try_new(&name, strategy, settings).expect("the quota and the name are good");
        // The first limit of a layer names its key.
        let key = KEYS.get(usize::from(key) % (KEYS.len() + 1)).copied();
        let key = key.or_else(|| previous.is_none().then_some(KeyKind::Global));
        let on_missing = match more % 4 {
            0 | 1 => OnMissing::Reject,
            2 => OnMissing::Shared,
            _ => OnMissing::Exempt,
        };
        let cost = match more >> 2 & 3 {
            0 | 1 => Cost::One,
            2 => Cost::ByTarget,
            _ => Cost::ByMethod,
        };
        Self {
            policy,
            key,
            resolved: key.or(previous).unwrap_or(KeyKind::Global),
            on_missing,
            cost,
            is_shadow: more & 0x30 == 0x30,
            is_closed,
            counts_rejections: more & 0x80 != 0,
        }
    }

    fn limit(&self) -> Limit {
        let limit = Limit::new(self.policy.clone());
        let api_key = || Header::named("x-api-key");
        let user = || Extension::<User>::with(|user, key| key.part("user", &[user.0]));
        let monitoring = |parts: &Parts, _: &mut KeyWriter<'_>| {
            let is_monitoring = parts.extensions.get::<Monitoring>().is_some();
            Ok(if is_monitoring { Identity::Exempt } else { Identity::Missing })
        };
        let mut limit = match self.key {
            None => limit,
            Some(KeyKind::Address) => limit.by(ClientIp::peer()),
            Some(KeyKind::ApiKey) => limit.by(api_key()),
            Some(KeyKind::Bearer) => limit.by(Bearer),
            Some(KeyKind::Cookie) => limit.by(Cookie::named("sid")),
            Some(KeyKind::Query) => limit.by(Query::named("key")),
            Some(KeyKind::User) => limit.by(user()),
            Some(KeyKind::Global) => limit.by(Global),
            Some(KeyKind::MonitoringOrAddress) => limit.by(monitoring.or(ClientIp::peer())),
            Some(KeyKind::ApiKeyOrAddress) => limit.by(api_key().or(ClientIp::peer())),
            Some(KeyKind::UserAndMethod) => limit.by(user().and(Route::http_method())),
            Some(KeyKind::LookedUp) => {
                limit.by_async(|parts: &Parts| look_up(parts.headers.get("x-api-key").cloned()))
            }
        };
        let cost = self.cost;
        limit =
            limit.on_missing(self.on_missing).cost_by(move |parts| cost.of(&parts.method, parts.uri.path()));
        if self.is_shadow {
            limit = limit.shadow();
        }
        if self.counts_rejections { limit.count_rejections() } else { limit }
    }
}

async fn look_up(key: Option<HeaderValue>) -> Result<Lookup, KeyError> {
    let key = key.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
    match key {
        b"k2" => tokio::task::yield_now().await,
        b"hang" => std::future::pending().await,
        _ => {}
    }
    match key {
        b"k1" | b"k2" => Ok(Lookup::found("tenant", key)),
        b"k7" => Err(KeyError::server("the database is gone")),
        b"k8" => Err(KeyError::client("the key is revoked")),
        b"k9" => Ok(Lookup::exempt()),
        _ => Ok(Lookup::missing()),
    }
}

const KEYS: [KeyKind; 11] = [
    KeyKind::Address,
    KeyKind::ApiKey,
    KeyKind::Bearer,
    KeyKind::Cookie,
    KeyKind::Query,
    KeyKind::User,
    KeyKind::Global,
    KeyKind::MonitoringOrAddress,
    KeyKind::ApiKeyOrAddress,
    KeyKind::UserAndMethod,
    KeyKind::LookedUp,
];
