//! What a layer limits.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use portcullis_core::{Key, Policy, Quota, Secret};

use crate::OnMissing;
use crate::limit::quota::QuotaSource;
use crate::limit::{KeySource, Limit, ResolvedKey};
use crate::{KeyError, KeyForms, Mode};

/// A layer that exists, with its policies as they were when `Limiter::layers` was called.
///
/// ```
/// use http::Request;
/// use portcullis::key::Header;
/// use portcullis::layer::Mode;
/// use portcullis::{Limiter, Policy, PolicyExt as _, PolicyName, Quota};
/// use tower::Layer as _;
///
/// let limiter = Limiter::memory();
/// let by_user = Header::named("x-user");
/// let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
/// let search = search.by(by_user.clone()).shadow();
/// let layer = limiter.layer(search).route("GET /search");
/// let service = layer.layer(()); // the route, with its handler
///
/// let layers = limiter.layers();
/// let [layer] = &layers[..] else { panic!("there is one layer") };
/// assert_eq!(layer.route(), Some("GET /search"));
/// let [policy] = layer.policies() else { panic!("it has one policy") };
/// assert_eq!((policy.mode(), policy.key()), (Mode::Shadow, "header x-user"));
/// assert_eq!(policy.policy().strategy().to_string(), "token_bucket 10/s burst 20");
///
/// let request = || Request::builder().header("x-user", "ada").body(()).expect("a request");
/// let (parts, ()) = request().into_parts();
/// let key = layer.find_key(policy.policy().name(), &parts)?;
/// assert_eq!(key, Some(limiter.key_of(&by_user, request())?));
///
/// drop(service);
/// assert!(limiter.layers().is_empty());
/// # Ok::<(), portcullis::key::KeyError>(())
/// ```
#[derive(Clone)]
pub struct LayerSummary {
    route: Option<Arc<str>>,
    policies: Vec<PolicySummary>,
    secret: Secret,
}

/// A policy of a [`LayerSummary`].
#[derive(Clone)]
pub struct PolicySummary {
    limit: Limit,
    key: Cow<'static, str>,
}

impl LayerSummary {
    /// The policies are as they are now, in the order of the layer.
    pub(crate) fn new(route: Option<Arc<str>>, policies: Vec<Limit>, secret: Secret) -> Self {
        let summary = |limit: Limit| {
            let key = limit.key_description();
            PolicySummary { limit, key }
        };
        Self { route, policies: policies.into_iter().map(summary).collect(), secret }
    }

    /// Returns the [route](crate::RateLimitLayer::route) that the layer was given.
    pub fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    /// Returns the policies in the order of the layer, those that are off included.
    pub fn policies(&self) -> &[PolicySummary] {
        &self.policies
    }

    /// Returns the key that a policy charges a request to, by running its extractor.
    ///
    /// `None` if the layer has no such policy, if the request is exempt or has no identity, and if the key is looked up: a look-up is
    /// not run. Lists and preflights do not count.
    ///
    /// # Errors
    ///
    /// If the identity is malformed, or the server is not configured to determine it.
    pub fn find_key(&self, policy: impl AsRef<str>, parts: &Parts) -> Result<Option<Key>, KeyError> {
        let mut own = self.policies.iter().map(|one| &one.limit);
        let Some(own) = own.find(|one| one.policy.name().as_str() == policy.as_ref()) else {
            return Ok(None);
        };
        let KeySource::Sync(extractor) = &own.key else { return Ok(None) };
        match (ResolvedKey::find(&**extractor, &self.secret, parts)?, own.on_missing) {
            (ResolvedKey::Missing, OnMissing::Reject) => Ok(None),
            (resolved, _) => own.key_to_charge(resolved, &self.secret, parts),
        }
    }

    /// The policies for a line of the log.
    pub(crate) fn policies_text(&self) -> String {
        let texts: Vec<_> = self.policies.iter().map(ToString::to_string).collect();
        texts.join("; ")
    }
}

impl PolicySummary {
    /// Returns the policy, as it was when the summary was made.
    pub fn policy(&self) -> &Policy {
        &self.limit.policy
    }

    /// Returns its mode in this layer.
    pub fn mode(&self) -> Mode {
        self.limit.mode
    }

    /// Returns whether what a request is charged may change after it was admitted: it is charged by its outcome, or reserves.
    pub fn corrects_charges(&self) -> bool {
        self.limit.outcome.is_some() || self.limit.reservation.is_some()
    }

    /// Returns whether keys with many denials are locked out.
    pub fn locks_out(&self) -> bool {
        self.limit.shared_lock_out.is_some()
    }

    /// Returns whether requests near the limit are warned.
    pub fn warns(&self) -> bool {
        self.limit.warn_at.is_some()
    }

    /// Returns whether its key is looked up.
    pub fn looks_up_keys(&self) -> bool {
        matches!(self.limit.key, KeySource::Async(_))
    }

    /// What its look-up of quotas has found for a key, if it has one and keeps that.
    pub(crate) fn found_quota(&self, key: Key) -> Option<Result<Option<Quota>, KeyError>> {
        match &self.limit.quota {
            Some(QuotaSource::LookUp(look_up)) => look_up.peek(key),
            _ => None,
        }
    }

    /// Returns what else is set, each in some words, such as `costs 5` or `waits for at most 1s`: costs, reservations, charges by the outcome,
    /// quotas of callers, lock-outs, waits, and how requests without an identity are treated. Empty for a limit without options.
    pub fn options(&self) -> Vec<Cow<'_, str>> {
        self.limit.options()
    }

    /// Returns [what its key is](crate::KeyExtractor::description), for people: `client_ip`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the [forms of its keys](crate::KeyExtractor::forms), with the key of all requests without an identity, if they share one.
    pub fn key_forms(&self) -> KeyForms {
        self.limit.key_forms()
    }
}

impl fmt::Display for PolicySummary {
    /// Prints what the policy limits: `search: token_bucket 10/s burst 20 by client_ip, enforce, costs 5, if the store fails: closed`. Behind its
    /// mode stands what passes all the same, if the policy is tried out: `shadow (tried out: it rejects no request)`. Then follow its
    /// [options](Self::options).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.policy();
        let (mode, failure) = (self.mode(), policy.failure_mode());
        write!(f, "{}: {} by {}, {mode}", policy.name(), policy.strategy(), self.key)?;
        match mode {
            Mode::ShadowPercent(_) => {
                f.write_str(" (tried out: it rejects no request, and is off for the other keys)")?;
            }
            Mode::Shadow => f.write_str(" (tried out: it rejects no request)")?,
            Mode::Percent(_) => f.write_str(" (tried out: requests of the other keys pass)")?,
            _ => {}
        }
        self.options().iter().try_for_each(|option| write!(f, ", {option}"))?;
        write!(f, ", if the store fails: {failure}")
    }
}

impl fmt::Debug for LayerSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerSummary")
            .field("route", &self.route)
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PolicySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicySummary").field(&format_args!("{self}")).finish()
    }
}
