//! What all routes share.

pub(crate) mod stream_places;

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use portcullis_core::overrides::OverrideError;
use portcullis_core::{Key, Policy, PolicyName, Secret, StoreErrorKind};
use portcullis_tower::{Fingerprint, OverridingError, Registry};
use serde::Serialize;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use crate::access::Authorize;
use crate::access::hosts::HostList;
use crate::problem::Problem;
use crate::recorder::Recorder;
use crate::state::stream_places::Places;

/// What all routes share.
pub(crate) struct AdminState {
    pub(crate) options: Options,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) streams: Arc<Places>,
    /// The last line of a stream, and when it was made.
    pub(crate) last_line: Mutex<Option<(Instant, Bytes)>>,
}

/// How the API is made.
pub(crate) struct Options {
    pub(crate) registry: Arc<Registry>,
    pub(crate) authorize: Authorize,
    pub(crate) hosts: HostList,
    pub(crate) generation: Option<Arc<Generation>>,
    pub(crate) caller_names: Option<Arc<CallerNames>>,
    pub(crate) store_kind: Cow<'static, str>,
    /// How long a call of the store may take.
    pub(crate) store_deadline: Duration,
}

type Generation = dyn Fn() -> Option<u64> + Send + Sync;
type CallerNames = dyn Fn(Fingerprint) -> Option<String> + Send + Sync;

/// The key of a caller, as answers show it.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Caller {
    /// The fingerprint of the key; `null` while the published secret is in use, and without a key.
    pub(crate) fingerprint: Option<String>,
    /// Why there is no fingerprint. Left out if there is one, and without a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint_withheld: Option<&'static str>,
    /// What cannot be verified about the key, and whether a block rejects no request here because of the mode. Left out without either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// The key of a caller that a request names.
#[derive(Debug)]
pub(crate) struct NamedCaller {
    pub(crate) key: Key,
    /// What cannot be verified about the key, or what a block does not do.
    pub(crate) note: Option<String>,
}

impl AdminState {
    /// The fingerprint of a key as it is shown: not at all while it is [withheld](Self::withheld).
    pub(crate) fn shown(&self, key: Key) -> Option<String> {
        self.withheld().is_none().then(|| Fingerprint::from(key).to_string())
    }

    /// Why fingerprints are not shown, while anybody can compute which identity one belongs to.
    pub(crate) fn withheld(&self) -> Option<&'static str> {
        (*self.options.registry.secret() == Secret::published()).then_some(WITHHELD)
    }

    /// The key of a caller in an answer.
    pub(crate) fn caller(&self, caller: NamedCaller) -> Caller {
        let NamedCaller { key, note } = caller;
        Caller { fingerprint: self.shown(key), fingerprint_withheld: self.withheld(), note }
    }

    /// The policy of a name, as it is now.
    pub(crate) fn policy(&self, name: &str) -> Result<Policy, Problem> {
        let policy = PolicyName::new(name).ok().and_then(|name| self.options.registry.policy(&name));
        policy.ok_or_else(|| {
            let mut names: Vec<_> =
                self.options.registry.policies().iter().map(|policy| policy.name().to_string()).collect();
            names.sort();
            names.truncate(MAX_NAMES);
            let detail = "the limiter has no policy of this name";
            Problem::new(StatusCode::NOT_FOUND, detail).with_field("policy").with_policies(names)
        })
    }

    /// Waits for the store.
    pub(crate) async fn answer<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        OverridingError: From<E>,
    {
        match timeout(self.options.store_deadline, call).await {
            Ok(answer) => answer.map_err(|error| Failure::Refused(error.into())),
            Err(_) => Err(Failure::TooSlow),
        }
    }
}

/// Why a call of the store has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    TooSlow,
    Refused(OverridingError),
}

impl Failure {
    /// Whether a change may have been made all the same.
    pub(crate) fn is_fate_unknown(&self) -> bool {
        match self {
            Self::TooSlow => true,
            Self::Refused(OverridingError::Store(error)) => error.kind().is_fate_unknown(),
            Self::Refused(_) => false,
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let unavailable = |detail: String| Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        match failure {
            Failure::TooSlow => unavailable("the store has not answered in time".to_owned()),
            Failure::Refused(OverridingError::Store(error)) => match error.kind() {
                StoreErrorKind::Unsupported => {
                    Self::new(StatusCode::NOT_IMPLEMENTED, format!("the store: {error}"))
                }
                _ => unavailable(format!("the store: {error}")),
            },
            Failure::Refused(OverridingError::Invalid(error)) => {
                let field = match error {
                    OverrideError::NotRead { .. } => "policy",
                    OverrideError::Quota { .. } => "quota",
                    OverrideError::SharedClient => "identity",
                    _ => "duration_seconds",
                };
                Self::invalid(field, error.to_string())
            }
            Failure::Refused(error) => {
                Self::new(StatusCode::NOT_FOUND, error.to_string()).with_field("policy")
            }
        }
    }
}

const WITHHELD: &str = "the limiter has the published secret, with which anybody can compute the fingerprint of an address or a user: \
                        give it a secret of its own, and name callers by `request` or `parts` until then";

/// How many names an error lists.
const MAX_NAMES: usize = 100;
