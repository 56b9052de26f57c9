//! The builder of the API.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::request::Parts;
use portcullis_core::or_panic;
use portcullis_tower::{Fingerprint, Registry};

use crate::access::hosts::HostList;
use crate::access::{Actor, Authorize, Authorized, Refused};
use crate::recorder::{Recorder, RecorderObserver};
use crate::router::router;
use crate::state::{AdminState, Options};

/// Makes the admin API of a limiter: an Axum router to mount where you like.
///
/// ```
/// use axum::Router;
/// use http::request::Parts;
/// use portcullis::Limiter;
/// use portcullis::admin::{Actor, Refused, has_bearer_token};
///
/// let admin = Limiter::memory().admin(|parts: &Parts| {
///     if has_bearer_token(parts, "a long random token") { Ok(Actor::new("operator")) } else { Err(Refused::Unauthenticated) }
/// });
/// let app: Router = Router::new().nest("/limits", admin.hosts(["admin.example.com"]).into_router());
/// # let _ = app;
/// ```
#[must_use = "an API does nothing until its router is mounted"]
pub struct Admin(Options);

impl Admin {
    /// Starts the API of a registry. `authorize` is called for each request of `/v1/*` before anything else, and returns who makes it.
    ///
    /// It sees the head of the request: headers such as `authorization`, and extensions that your own authentication has set. What it
    /// refuses is answered with 401 or 403, and tells nothing about the limiter. Failed attempts are neither counted nor slowed down: limit
    /// them by a layer around the router, as `portcullis serve` does.
    pub fn new<F>(registry: Arc<Registry>, authorize: F) -> Self
    where
        F: Fn(&Parts) -> Result<Actor, Refused> + Send + Sync + 'static,
    {
        Self::with(registry, move |parts| Box::pin(ready(authorize(parts))))
    }

    /// Like [`Admin::new`], with a function that waits for something, such as a look-up of a session.
    pub fn new_async<F, R>(registry: Arc<Registry>, authorize: F) -> Self
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Actor, Refused>> + Send + 'static,
    {
        Self::with(registry, move |parts| Box::pin(authorize(parts.clone())))
    }

    fn with(
        registry: Arc<Registry>,
        authorize: impl Fn(&Parts) -> Authorized + Send + Sync + 'static,
    ) -> Self {
        Self(Options {
            registry,
            authorize: Authorize(Arc::new(authorize)),
            hosts: HostList::default(),
            generation: None,
            caller_names: None,
            store_kind: Cow::Borrowed("custom"),
            store_deadline: DEFAULT_DEADLINE,
        })
    }

    /// Sets the hosts that a request may name, in place of `localhost`, `127.0.0.1` and `[::1]`. A host without a port stands for all
    /// ports. A request that names another one is answered with 421.
    ///
    /// Those from configuration or input are a [`HostList`].
    ///
    /// # Panics
    ///
    /// If texts are no hosts, for which [`HostList::new`] returns an error.
    #[track_caller]
    pub fn hosts(self, hosts: impl TryInto<HostList, Error: fmt::Display>) -> Self {
        Self(Options { hosts: or_panic(hosts.try_into()), ..self.0 })
    }

    /// Sets the word by which answers name the store, such as `redis`. `custom` by default.
    pub fn store_kind(self, kind: impl Into<Cow<'static, str>>) -> Self {
        Self(Options { store_kind: kind.into(), ..self.0 })
    }

    /// Sets where answers find the number of the rules in use.
    pub fn generation(self, generation: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self(Options { generation: Some(Arc::new(generation)), ..self.0 })
    }

    /// Sets what finds the name of a caller, which the lists of a snapshot then show beside its fingerprint, to all who may use the API. It
    /// is in no log line and no audit event. By default callers have no names.
    ///
    /// It is called for each caller of a list, up to 400 times for a snapshot, and must not wait: look the fingerprint up in a map of the
    /// process. A name of more than 200 characters is cut. If it panics, the caller has no name.
    ///
    /// A key of several parts has the fingerprint of its first part as [`slot`](portcullis_core::Key::slot), by which a user is found under
    /// all policies whose key begins with the user.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// use http::request::Parts;
    /// use portcullis::Limiter;
    /// use portcullis::admin::Refused;
    ///
    /// let limiter = Limiter::memory();
    /// let mut users = HashMap::new();
    /// for user in ["ada", "grace"] {
    ///     // The parts that the extractor of the layers writes.
    ///     let key = limiter.key(|key| key.part("user", user.as_bytes()))?;
    ///     users.insert(key.slot(), user.to_owned());
    /// }
    /// let admin = limiter
    ///     .admin(|_: &Parts| Err(Refused::Forbidden))
    ///     .caller_names(move |fingerprint| users.get(&fingerprint.key().slot()).cloned());
    /// # let _ = admin;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn caller_names(self, name: impl Fn(Fingerprint) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Options { caller_names: Some(Arc::new(name)), ..self.0 })
    }

    /// Sets how long a call of the store may take, after which the answer is 503. Five seconds by default.
    pub fn store_deadline(self, deadline: Duration) -> Self {
        Self(Options { store_deadline: deadline, ..self.0 })
    }

    /// Makes the router, and adds the observer to the registry that records what it shows. Call it once per registry: an observer
    /// stays for as long as the registry.
    ///
    /// A router that has a state takes it by `Router::nest_service`, or by `nest` and `with_state(())`.
    pub fn into_router(self) -> Router {
        let recorder = Arc::new(Recorder::new());
        self.0.registry.observe(Arc::new(RecorderObserver(Arc::clone(&recorder))));
        let (streams, last_line) = Default::default();
        router(Arc::new(AdminState { options: self.0, recorder, streams, last_line }))
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("registry", &self.0.registry)
            .field("hosts", &self.0.hosts)
            .finish_non_exhaustive()
    }
}

const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);
