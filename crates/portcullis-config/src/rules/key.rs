//! What requests are charged to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, HeaderValue};
use portcullis_core::Policy;
use portcullis_tower::matching::{PathPattern, RequestMatcher, matched_path};
use portcullis_tower::{
    AsyncKeyExtractor, Bearer, ClientIp, Cookie, Credential, Global, Header, Host, Identity, KeyError,
    KeyExtractor, KeyForms, KeyWriter, Limit, Lookup, LookupCounts, LookupFuture, NamedPart, PathKey,
    PolicyExt as _, Query, Route,
};

use crate::hooks::Hooks;
use crate::tables::PLAIN_KEYS;

/// The key of a rule, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    ClientIp,
    Peer,
    Global,
    Route,
    Method,
    GrpcService,
    GrpcMethod,
    Bearer,
    Path,
    Host,
    Header(HeaderName),
    /// Of named proxies alone.
    Trusted(HeaderName),
    Cookie(String),
    Query(String),
    /// All named segments, or the one of this name.
    Segments(PathPattern, Option<String>),
    Extension(String),
    Lookup(String),
    /// With the challenge of responses to requests without it.
    Credential(Box<Key>, HeaderValue),
    /// All parts.
    All(Vec<Key>),
    /// The first that is there.
    First(Vec<Key>),
}

/// In the order of their names.
const PLAIN: [Key; PLAIN_KEYS.len()] = [
    Key::ClientIp,
    Key::Peer,
    Key::Global,
    Key::Route,
    Key::Method,
    Key::GrpcService,
    Key::GrpcMethod,
    Key::Bearer,
    Key::Path,
    Key::Host,
];

/// The extractor of a rule, which all of its layers share.
#[derive(Clone)]
pub(super) enum KeySource {
    Sync(Arc<dyn KeyExtractor>),
    Async(Arc<dyn AsyncKeyExtractor>),
}

impl Key {
    /// The key that is this name and nothing else.
    pub(super) fn plain(name: &str) -> Option<Self> {
        PLAIN_KEYS.iter().zip(PLAIN).find(|(known, _)| **known == name).map(|(_, key)| key)
    }

    /// Whether a client can change it from request to request.
    pub(super) fn is_chosen_by_client(&self) -> bool {
        match self {
            Self::Bearer
            | Self::Path
            | Self::Host
            | Self::Header(_)
            | Self::Cookie(_)
            | Self::Query(_)
            | Self::Segments(..) => true,
            Self::Credential(key, _) => key.is_chosen_by_client(),
            Self::All(parts) | Self::First(parts) => parts.iter().any(Self::is_chosen_by_client),
            Self::ClientIp
            | Self::Peer
            | Self::Global
            | Self::Route
            | Self::Method
            | Self::GrpcService
            | Self::GrpcMethod
            | Self::Trusted(_)
            | Self::Extension(_)
            | Self::Lookup(_) => false,
        }
    }

    /// Whether it is the address of a client or proxy, and nothing else.
    pub(super) fn is_address(&self) -> bool {
        matches!(self, Self::ClientIp | Self::Peer)
    }

    /// What it is charged to if that is one identity, which no client chooses.
    pub(super) fn identity(&self) -> Option<&Self> {
        match self {
            Self::ClientIp | Self::Peer | Self::Trusted(_) | Self::Extension(_) => Some(self),
            Self::Credential(key, _) => key.identity(),
            _ => None,
        }
    }

    /// What is joined to it.
    pub(super) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Credential(key, _) => key.parts(),
            Self::All(parts) => parts.iter().flat_map(Self::parts).collect(),
            _ => vec![self],
        }
    }

    /// Whether this identity is in each key that a client can change: a policy by it bounds them all.
    pub(super) fn is_bounded_by(&self, identity: &Self) -> bool {
        match self {
            Self::Credential(key, _) => key.is_bounded_by(identity),
            Self::First(sources) => {
                sources.iter().all(|key| !key.is_chosen_by_client() || key.is_bounded_by(identity))
            }
            _ => self.parts().contains(&identity),
        }
    }

    /// Whether it is an address for requests without another identity.
    pub(super) fn falls_back_to_address(&self) -> bool {
        matches!(self, Self::First(parts) if parts.last().is_some_and(Self::is_address))
    }

    /// Whether each request has it, or is rejected.
    pub(super) fn is_always_there(&self) -> bool {
        matches!(self, Self::ClientIp | Self::Peer | Self::Global | Self::Method)
    }

    /// The extractor. `None` for a look-up, which stands alone.
    fn extractor(&self, clients: &ClientIp, hooks: &Hooks) -> Option<Arc<dyn KeyExtractor>> {
        let fold = |parts: &[Self], combine: fn(Extractor, Extractor) -> Extractor| {
            let mut parts = parts.iter().map(|part| part.extractor(clients, hooks));
            let first = parts.next()??;
            parts.try_fold(first, |left, right| Some(combine(left, right?)))
        };
        Some(match self {
            Self::ClientIp => Arc::new(clients.clone()),
            Self::Peer => Arc::new(ClientIp::peer()),
            Self::Global => Arc::new(Global),
            Self::Route => Arc::new(MatchedRoute),
            Self::Method => Arc::new(Route::http_method()),
            Self::GrpcService => Arc::new(Route::grpc_service()),
            Self::GrpcMethod => Arc::new(Route::grpc_method()),
            Self::Bearer => Arc::new(Bearer),
            Self::Path => Arc::new(PathKey::whole()),
            Self::Host => Arc::new(Host),
            Self::Header(name) => Arc::new(Header::named(name)),
            Self::Trusted(name) => Arc::new(Header::named(name).trusted(clients)),
            Self::Cookie(name) => Arc::new(Cookie::named(name)),
            Self::Query(name) => Arc::new(Query::named(name)),
            Self::Segments(pattern, name) => {
                let key = PathKey::of(pattern.clone());
                Arc::new(match name {
                    Some(name) => key.segment(name),
                    None => key,
                })
            }
            Self::Extension(name) => hooks.keys.get(name).cloned().unwrap_or_else(|| Arc::new(Unregistered)),
            Self::Lookup(_) => return None,
            Self::Credential(key, challenge) => {
                let credential: Credential<_> = key.extractor(clients, hooks)?.credential(challenge.clone());
                Arc::new(credential)
            }
            Self::All(parts) => fold(parts, |left, right| Arc::new(left.and(right)))?,
            Self::First(parts) => fold(parts, |left, right| Arc::new(left.or(right)))?,
        })
    }

    /// The source of the key, of which some requests are exempt.
    pub(super) fn source(
        &self,
        clients: &ClientIp,
        hooks: &Hooks,
        except: Vec<Arc<dyn RequestMatcher>>,
    ) -> Option<KeySource> {
        if let Self::Lookup(name) = self {
            let look_up = hooks.lookups.get(name).cloned();
            let look_up = look_up.unwrap_or_else(|| Arc::new(|_: &Parts| async { Ok(Lookup::exempt()) }));
            if except.is_empty() {
                return Some(KeySource::Async(look_up));
            }
            return Some(KeySource::Async(Arc::new(Except { key: look_up, except })));
        }
        let key = self.extractor(clients, hooks)?;
        Some(KeySource::Sync(if except.is_empty() { key } else { Arc::new(Except { key, except }) }))
    }
}

type Extractor = Arc<dyn KeyExtractor>;

/// The matched route, wherever the feature of the framework is enabled.
struct MatchedRoute;

impl KeyExtractor for MatchedRoute {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let Some(route) = matched_path(parts) else { return Ok(Identity::Missing) };
        key.shared_part("route", route.as_bytes());
        Ok(Identity::Found)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("route")
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(Self)
    }
}

impl NamedPart for MatchedRoute {
    fn name(&self) -> Cow<'_, str> {
        "route".into()
    }

    fn example(&self) -> Cow<'_, str> {
        "/users/{id}".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["route"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        key.shared_part("route", value);
        Ok(())
    }
}

/// In place of an extension that the program did not register.
struct Unregistered;

impl KeyExtractor for Unregistered {
    fn extract(&self, _: &Parts, _: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        Ok(Identity::Exempt)
    }

    fn forms(&self) -> KeyForms {
        KeyForms::default()
    }
}

/// A key that some requests need not have.
struct Except<K> {
    key: K,
    except: Vec<Arc<dyn RequestMatcher>>,
}

impl<K> Except<K> {
    fn exempts(&self, parts: &Parts) -> bool {
        self.except.matches(parts) == Ok(true)
    }
}

impl KeyExtractor for Except<Arc<dyn KeyExtractor>> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        if self.exempts(parts) { Ok(Identity::Exempt) } else { self.key.extract(parts, key) }
    }

    fn challenge(&self) -> Option<HeaderValue> {
        self.key.challenge()
    }

    fn counts_rejections(&self) -> bool {
        self.key.counts_rejections()
    }

    fn is_chosen_by_client(&self) -> bool {
        self.key.is_chosen_by_client()
    }

    fn is_shared(&self) -> bool {
        self.key.is_shared()
    }

    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        self.key.expected(parts)
    }

    fn description(&self) -> Cow<'static, str> {
        self.key.description()
    }

    fn forms(&self) -> KeyForms {
        self.key.forms()
    }
}

impl AsyncKeyExtractor for Except<Arc<dyn AsyncKeyExtractor>> {
    fn look_up(&self, parts: &Parts) -> LookupFuture {
        if self.exempts(parts) {
            return Box::pin(std::future::ready(Ok(Lookup::exempt())));
        }
        self.key.look_up(parts)
    }

    fn challenge(&self) -> Option<HeaderValue> {
        self.key.challenge()
    }

    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        self.key.expected(parts)
    }

    fn description(&self) -> Cow<'static, str> {
        self.key.description()
    }

    fn count_in(&self, counts: &LookupCounts) {
        self.key.count_in(counts);
    }
}

impl KeySource {
    /// A policy that is charged to the key.
    pub(super) fn limit(&self, policy: Policy) -> Limit {
        match self {
            Self::Sync(key) => policy.by(Arc::clone(key)),
            Self::Async(look_up) => policy.by_async(Arc::clone(look_up)),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], between: &str| {
            parts.iter().enumerate().try_for_each(|(index, part)| {
                let between = if index == 0 { "" } else { between };
                match part {
                    Self::All(_) | Self::First(_) => write!(f, "{between}({part})"),
                    _ => write!(f, "{between}{part}"),
                }
            })
        };
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Trusted(name) => write!(f, "trusted header {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Query(name) => write!(f, "query {name}"),
            Self::Segments(pattern, None) => write!(f, "path {pattern}"),
            Self::Segments(pattern, Some(name)) => write!(f, "{{{name}}} of path {pattern}"),
            Self::Extension(name) => write!(f, "extension {name}"),
            Self::Lookup(name) => write!(f, "lookup {name}"),
            Self::Credential(key, _) => key.fmt(f),
            Self::All(parts) => list(f, parts, " and "),
            Self::First(parts) => list(f, parts, ", else "),
            plain => {
                let names = PLAIN_KEYS.iter().zip(PLAIN).filter(|(_, key)| key == plain);
                names.map(|(name, _)| name).try_for_each(|name| f.write_str(name))
            }
        }
    }
}
