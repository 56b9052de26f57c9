//! The configuration of a layer as its policies are now.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use portcullis_core::PolicyName;

use super::LayerConfig;
use crate::limit::Limit;
use crate::registry::layers::{LayerSummary, ListedLayer};
use portcullis_engine::policies::{PolicyTable, Registered};
use portcullis_log::{LogThrottle, codes};

/// The configuration of a layer, which all services of the layer share: as it was built, and as its policies are now if they
/// have changed since.
pub(crate) struct LiveConfig {
    table: Arc<PolicyTable>,
    built: Arc<LayerConfig>,
    /// Read for each request once the policies differ from those that the layer was built with. A reader holds the lock for a
    /// count of references.
    changed: RwLock<Option<Arc<LayerConfig>>>,
    ignored_share: LogThrottle,
}

/// The configuration for one request, which keeps it to its end.
pub(crate) enum CurrentConfig<'a> {
    Built(&'a Arc<LayerConfig>),
    Changed(Arc<LayerConfig>),
}

/// What a configuration agrees with, and where its changes are.
pub(super) struct Version {
    /// The generation of the policies that the configuration was compared with last.
    generation: AtomicU64,
    /// The live configuration of a layer that was applied.
    live: Mutex<Weak<LiveConfig>>,
    /// Whether what the layer limits was logged.
    is_start_logged: AtomicBool,
}

impl LiveConfig {
    /// The one of all services of a layer, which is listed with the first service, and logged once.
    pub(crate) fn started(built: &Arc<LayerConfig>) -> Arc<Self> {
        let (live, is_new) = Self::found_or_made(built);
        if is_new {
            live.list();
            if !built.registry.is_off() && !built.version.is_start_logged.swap(true, Relaxed) {
                built.registry.inventory().log_start(&live.summary());
            }
        }
        live
    }

    /// Adds the route of a request, unless the layer was given one. The first ones are logged.
    #[cfg(feature = "axum")]
    pub(crate) fn learn_route(&self, route: &str) {
        if self.built.limits.route().see(route) {
            self.built.registry.inventory().log_route(route, &self.built);
        }
    }

    /// Lists the layer for as long as it exists.
    pub(crate) fn list(self: &Arc<Self>) {
        let weak: Weak<Self> = Arc::downgrade(self);
        self.built.registry.inventory().add(weak);
    }

    /// The one of all services of a layer, without a line in the log.
    pub(crate) fn of(built: &Arc<LayerConfig>) -> Arc<Self> {
        Self::found_or_made(built).0
    }

    /// Returns as well whether it is new.
    fn found_or_made(built: &Arc<LayerConfig>) -> (Arc<Self>, bool) {
        let mut live = built.version.live.lock().unwrap_or_else(PoisonError::into_inner);
        let found = live.upgrade();
        let is_new = found.is_none();
        let found = found.unwrap_or_else(|| {
            let table = Arc::clone(built.registry.engine().policies());
            // The layer may have been changed in its place since it was applied last.
            built.version.set(NEVER);
            built.find_fast_path();
            let ignored_share = LogThrottle::hourly();
            let new =
                Arc::new(Self { table, built: Arc::clone(built), changed: RwLock::default(), ignored_share });
            *live = Arc::downgrade(&new);
            new
        });
        (found, is_new)
    }

    /// The configuration for a request. Costs one atomic load as long as the policies are those that the layer was built with.
    #[inline]
    pub(crate) fn current(&self) -> CurrentConfig<'_> {
        if self.built.version.is(self.table.generation()) {
            CurrentConfig::Built(&self.built)
        } else {
            self.changed()
        }
    }

    #[cold]
    #[inline(never)]
    fn changed(&self) -> CurrentConfig<'_> {
        let generation = self.table.generation();
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner).clone();
        match changed {
            Some(changed) if changed.version.is(generation) => CurrentConfig::Changed(changed),
            _ => self.resolve(),
        }
    }

    /// Compares the policies with those that are registered, once per change. Requests that arrive meanwhile wait for the
    /// result, which they need.
    fn resolve(&self) -> CurrentConfig<'_> {
        let mut changed = self.changed.write().unwrap_or_else(PoisonError::into_inner);
        let built = self.built.policies();
        let (generation, registered) = self.table.registered(built.iter().map(|one| one.policy.name()));
        let ignores = |(one, registered): &(&Limit, &Registered)| one.ignores(registered.mode);
        let ignoring = built.iter().zip(&registered).find(ignores).map(|(one, _)| one.policy.name());
        let policies: Vec<_> = built
            .iter()
            .zip(registered)
            .filter_map(|(one, registered)| one.as_registered(registered))
            .collect();
        let current = if are_same(&policies, built) {
            *changed = None;
            self.built.version.set(generation);
            CurrentConfig::Built(&self.built)
        } else {
            let config = match changed.take() {
                Some(same) if are_same(&policies, same.policies()) => same,
                _ => Arc::new(self.built.with_policies(policies)),
            };
            config.version.set(generation);
            *changed = Some(Arc::clone(&config));
            CurrentConfig::Changed(config)
        };
        drop(changed);
        if let Some(policy) = ignoring {
            self.log_ignored_share(policy);
        }
        current
    }

    fn log_ignored_share(&self, policy: &PolicyName) {
        let unsaid = &self.built.registry.engine().backlog.unsaid_lines;
        self.ignored_share.count(0, Some(unsaid), || {
            let policy = policy.clone();
            move |counted| {
                tracing::warn!(
                    code = %codes::SHARE_IGNORED, %policy, times = counted.events,
                    "a policy is enforced for a share of its keys, but not in a layer that was built later and whose keys clients \
                     choose: it keeps its own mode"
                );
            }
        });
    }
}

impl ListedLayer for LiveConfig {
    fn summary(&self) -> LayerSummary {
        let built = self.built.policies();
        let registered = self.table.registered(built.iter().map(|one| one.policy.name())).1;
        let is_off = self.built.registry.is_off();
        let policies = built.iter().zip(registered).map(|(one, now)| {
            let now = one.as_registered_or_off(now);
            if is_off { now.switched_off() } else { now }
        });
        let (route, secret) = (self.built.limits.route().text(), self.built.registry.secret().clone());
        LayerSummary::new(route, policies.collect(), secret)
    }
}

impl LayerConfig {
    /// For checks that handlers make later: the same policies with their quotas as they are now, in the modes that they have here.
    pub(crate) fn for_later_checks(self: &Arc<Self>) -> Arc<Self> {
        let (config, table) = (Arc::clone(self), self.registry.engine().policies());
        if self.version.is(table.generation()) {
            return config;
        }
        let names = self.policies().iter().map(|one| one.policy.name());
        let now = table.registered(names).1;
        let with_policy = |(one, now): (&Limit, Registered)| one.with_policy(now);
        let policies: Vec<_> = self.policies().iter().zip(now).map(with_policy).collect();
        if are_same(&policies, self.policies()) { config } else { Arc::new(config.with_policies(policies)) }
    }

    /// Returns this configuration, whose policies are those of this generation.
    pub(crate) fn agreeing_with(self, generation: u64) -> Self {
        self.version.set(generation);
        self
    }

    /// Returns this layer with its policies as they are now.
    pub(crate) fn with_policies(&self, policies: Vec<Limit>) -> Self {
        let mut config =
            Self { policies: Arc::new(policies), limits: Arc::clone(&self.limits), ..self.clone() };
        config.render();
        config.find_fast_path();
        config
    }
}

impl Deref for CurrentConfig<'_> {
    type Target = Arc<LayerConfig>;

    #[inline]
    fn deref(&self) -> &Arc<LayerConfig> {
        match self {
            Self::Built(config) => config,
            Self::Changed(config) => config,
        }
    }
}

impl Version {
    #[inline]
    fn is(&self, generation: u64) -> bool {
        self.generation.load(Relaxed) == generation
    }

    /// The configuration itself never changes, so no order with other memory is needed.
    fn set(&self, generation: u64) {
        self.generation.store(generation, Relaxed);
    }
}

impl Default for Version {
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(NEVER),
            live: Mutex::default(),
            is_start_logged: AtomicBool::default(),
        }
    }
}

impl fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self.current(), f)
    }
}

/// Whether policies of one layer are equal in what can change.
fn are_same(one: &[Limit], other: &[Limit]) -> bool {
    let is_same = |(one, other): (&Limit, &Limit)| {
        one.mode == other.mode
            && one.policy == other.policy
            && one.shared_lock_out.as_ref().map(Arc::as_ptr)
                == other.shared_lock_out.as_ref().map(Arc::as_ptr)
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// The generation of a configuration that was compared with none yet.
const NEVER: u64 = u64::MAX;
