//! Rules that change while they limit requests.

mod clients;
#[cfg(feature = "signed")]
mod documents;
mod error;
#[cfg(any(feature = "watch", feature = "signed"))]
mod following;
mod layer;
mod requirement;
mod version;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use portcullis_core::Policy;
use portcullis_tower::{Installation, InstalledPolicy, LayerError, LayerLog, Registry};

use crate::rules::{Rule, Rules};
pub use clients::RulesClients;
pub use error::{NoRules, ReloadError, UnknownRule};
#[cfg(any(feature = "watch", feature = "signed"))]
pub(crate) use following::WeakLiveRules;
pub use layer::{RulesLayer, RulesService};
use requirement::Requirements;
pub use requirement::RulesRequirement;
use version::RulesVersion;

/// The rules of a limiter, which can be replaced at any time. Clones share everything.
///
/// Each request is decided by one version of the rules, from the choice of the rules that match it to its quotas and headers. The states
/// of keys stay as far as they can follow: a policy whose algorithm or window length differs
/// starts with fresh states, and what was charged under the former one is corrected under it. What was set by hand by
/// `Limiter::set_policy` or `Limiter::set_mode` stays until the rules change for that policy, and by `Limiter::set_quota` until the
/// text of the rules changes at all.
///
/// ```
/// use http::{Request, Response};
/// use portcullis::Limiter;
/// use portcullis::rules::{Diagnostics, Format, Loader, Rules};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// fn daily(limit: u32) -> Result<Rules, Diagnostics> {
///     let text = format!("[policy.daily]\nstrategy = \"fixed_window\"\nquota = \"{limit}/day\"\nkey = \"global\"\n");
///     Rules::load(&Loader::text("limits.toml", Format::Toml, text))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::memory().with_rules(daily(100)?)?;
/// let live = limiter.rules()?;
/// let service = live.layer().layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(()))
/// }));
/// let response = service.clone().oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
///
/// assert_eq!(live.swap(daily(50)?)?, 2);
/// let response = service.oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.headers()["x-ratelimit-limit"], "50");
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "48");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LiveRules(Arc<Shared>);

/// What the clones and the layers share.
struct Shared {
    registry: Arc<Registry>,
    current: ArcSwap<RulesVersion>,
    /// Held while rules are replaced, and while a layer is made of the current ones.
    changes: Mutex<Changes>,
    /// Held while rules are read again, so that an older file never replaces a newer one.
    reloads: Mutex<()>,
    /// Whether the rules that came last, other than by a document, were refused.
    is_refused: AtomicBool,
    /// The log of all layers, so that a reload starts neither its throttles nor an outage anew.
    log: LayerLog,
    #[cfg(feature = "signed")]
    documents: documents::Documents,
}

struct Changes {
    /// Keeps the names of the current policies registered.
    installation: Option<Installation>,
    /// The rules that have layers of their own.
    used: Vec<Weak<str>>,
    required: Requirements,
}

impl LiveRules {
    /// Begins with these rules, as generation 1.
    ///
    /// # Errors
    ///
    /// If a rule cannot be a layer of this registry, as if a layer has a different policy under its name.
    pub fn new(registry: Arc<Registry>, rules: Rules) -> Result<Self, LayerError> {
        let installation = registry.install(&installed(&rules, false), || {})?;
        let current = ArcSwap::from_pointee(RulesVersion::new(rules, 1));
        let changes =
            Changes { installation: Some(installation), used: Vec::new(), required: Requirements::default() };
        let (changes, reloads) = (Mutex::new(changes), Mutex::new(()));
        let shared = Shared {
            registry,
            current,
            changes,
            reloads,
            is_refused: AtomicBool::new(false),
            log: LayerLog::default(),
            #[cfg(feature = "signed")]
            documents: documents::Documents::default(),
        };
        shared.current.load().list(&shared.registry, &shared.log, None);
        Ok(Self(Arc::new(shared)))
    }

    /// Returns a layer that limits each request by all rules that match it, in one decision. A request that no rule matches goes to the
    /// inner service unchanged.
    pub fn layer(&self) -> RulesLayer {
        RulesLayer { live: self.clone(), rule: None }
    }

    /// Returns a layer that limits each request by one rule, whatever its `match`.
    ///
    /// As long as the layer, or a service of it, exists, rules without this one are refused: a file that lacks it must not end the
    /// limit of a route.
    ///
    /// # Errors
    ///
    /// If the current rules have no rule of this name.
    pub fn layer_of(&self, name: &str) -> Result<RulesLayer, UnknownRule> {
        // Under the lock, so that the rule is not removed meanwhile.
        let mut changes = self.0.changes();
        let version = self.0.current.load();
        if version.named(name).is_none() {
            return Err(UnknownRule::new(name, version.rules.iter().map(Rule::table)));
        }
        changes.used.retain(|used| used.strong_count() > 0);
        let name =
            changes.used.iter().filter_map(Weak::upgrade).find(|used| **used == *name).unwrap_or_else(|| {
                let name = Arc::from(name);
                changes.used.push(Arc::downgrade(&name));
                name
            });
        Ok(RulesLayer { live: self.clone(), rule: Some(name) })
    }

    /// Returns the policy of a rule, for a [check](portcullis_tower::CheckBuilder) in a handler: its checks are decided under the
    /// policy as it is when they are made, also after the rules have changed.
    ///
    /// # Errors
    ///
    /// If the current rules have no policy of this name.
    pub fn policy(&self, name: &str) -> Result<Policy, UnknownRule> {
        let version = self.0.current.load();
        match version.rules.get(name) {
            Some(rule) => Ok(rule.policy().clone()),
            None => Err(UnknownRule::new(name, version.rules.iter().map(|rule| rule.name().as_str()))),
        }
    }

    /// Replaces the rules, from the next request on, and returns the new generation. [`RulesReloaded`] is emitted, or
    /// [`RulesRejected`], and one line is logged.
    ///
    /// [`RulesReloaded`]: portcullis_tower::EventKind::RulesReloaded
    /// [`RulesRejected`]: portcullis_tower::EventKind::RulesRejected
    ///
    /// # Errors
    ///
    /// [`LayerError::RuleInUse`] if a rule lacks that a [layer](Self::layer_of) is made of; the error of what is [required](Self::require);
    /// otherwise if a rule cannot be a layer of the registry. The former rules stay then.
    pub fn swap(&self, rules: Rules) -> Result<u64, LayerError> {
        let swapped = self.0.swap(self.0.changes(), rules);
        match &swapped {
            Ok(generation) => self.reloaded(*generation),
            Err(error) => self.reject(&error.to_string()),
        }
        swapped
    }

    /// Reports that the rules were replaced.
    fn reloaded(&self, generation: u64) {
        self.0.is_refused.store(false, Relaxed);
        self.0.registry.rules_reloaded(generation, self.current().loader().name());
        #[cfg(feature = "signed")]
        self.report_document();
    }

    /// Reads the rules again from where they came from, and replaces them. Returns the new generation, also if nothing has changed.
    ///
    /// Reloads are made one after the other. Rules that are [swapped](Self::swap) in while files are read are never replaced by what
    /// was read for those before them: they are read again from where they came from, as if the reload had begun after the swap.
    ///
    /// [`RulesReloaded`] is emitted, or [`RulesRejected`], and one line is logged, with all that is wrong. A
    /// signed document that the files no longer fit is discarded, with [`RulesRejected`] and a line of its own.
    ///
    /// [`RulesReloaded`]: portcullis_tower::EventKind::RulesReloaded
    /// [`RulesRejected`]: portcullis_tower::EventKind::RulesRejected
    ///
    /// # Errors
    ///
    /// If the files have errors, or as for [`swap`](Self::swap). The former rules stay then. [`ReloadError::NoPolicies`] if the files
    /// have no policy any more, as a file that is being written. [`ReloadError::Interrupted`] if other
    /// rules were swapped in during each of ten attempts.
    pub fn reload(&self) -> Result<u64, ReloadError> {
        let read = |current: &Rules| {
            let rules = Rules::load(current.loader()).map_err(ReloadError::Invalid)?;
            if is_emptied(current, &rules) { Err(ReloadError::NoPolicies) } else { Ok(rules) }
        };
        #[cfg(feature = "signed")]
        let reloaded = self.0.reload(read, Shared::swap_files);
        #[cfg(not(feature = "signed"))]
        let reloaded = self.0.reload(read, Shared::swap_generation);
        match &reloaded {
            Ok(generation) => self.reloaded(*generation),
            Err(error) => self.reject(&error.to_string()),
        }
        reloaded
    }

    /// Reports that new rules were refused before they could replace the current ones.
    fn reject(&self, findings: &str) {
        self.0.is_refused.store(true, Relaxed);
        self.0.registry.rules_rejected(self.generation(), findings);
    }

    /// Whether the rules that came last were refused, so that older ones apply: the files, or the signed document of the fleet. It is so
    /// until what is wrong is mended.
    pub fn has_refused(&self) -> bool {
        let has_refused = self.0.is_refused.load(Relaxed);
        #[cfg(feature = "signed")]
        let has_refused = has_refused || self.0.documents.is_refused();
        has_refused
    }

    /// Returns the number of the current rules: 1 for the first ones, and one more for each that replaced them.
    pub fn generation(&self) -> u64 {
        self.0.current.load().generation
    }

    /// Returns the current rules.
    pub fn current(&self) -> Rules {
        self.0.current.load().rules.clone()
    }

    /// Returns the registry whose policies the rules install.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }
}

impl Shared {
    /// Reads new rules with the help of the current ones, and replaces exactly these: `swap` returns `None` if others were swapped in
    /// meanwhile, and then they are read again.
    fn reload<E: From<ReloadError>>(
        &self,
        read: impl Fn(&Rules) -> Result<Rules, E>,
        swap: impl Fn(&Self, Rules, u64) -> Result<Option<u64>, LayerError>,
    ) -> Result<u64, E> {
        let _reloading = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..RELOAD_ATTEMPTS {
            // Not held while files are read.
            let (current, generation) = {
                let version = self.current.load();
                (version.rules.clone(), version.generation)
            };
            if let Some(next) = swap(self, read(&current)?, generation).map_err(ReloadError::from)? {
                return Ok(next);
            }
        }
        Err(ReloadError::Interrupted.into())
    }

    /// Replaces the rules of one generation. `None` if others are current.
    fn swap_generation(&self, rules: Rules, replaced: u64) -> Result<Option<u64>, LayerError> {
        let changes = self.changes();
        if replaced != self.current.load().generation {
            return Ok(None);
        }
        self.swap(changes, rules).map(Some)
    }

    fn swap(&self, mut changes: MutexGuard<'_, Changes>, rules: Rules) -> Result<u64, LayerError> {
        changes.used.retain(|used| used.strong_count() > 0);
        let generation = self.current.load().generation.saturating_add(1);
        let next = Arc::new(RulesVersion::new(rules, generation));
        let lacks = |used: &Arc<str>| next.named(used).is_none();
        if let Some(used) = changes.used.iter().filter_map(Weak::upgrade).find(lacks) {
            return Err(LayerError::RuleInUse { rule: used.to_string() });
        }
        changes.required.check(&next.rules)?;
        let policies = installed(&next.rules, !next.rules.has_text_of(&self.current.load().rules));
        // Dropped behind the installation: its layers leave the registry, whose lock is held while the pointer is stored.
        let mut former = None;
        let commit = || former = Some(self.current.swap(next));
        let installation = self.registry.install(&policies, commit)?;
        let before = changes.installation.replace(installation);
        let logged = former.as_ref().and_then(|former| former.texts());
        drop((before, former));
        self.current.load().list(&self.registry, &self.log, logged.as_deref());
        drop(changes);
        Ok(generation)
    }

    /// The changes are consistent between any two statements, so a poisoned lock is safe to use.
    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether files have no policy any more, as while they are written.
fn is_emptied(current: &Rules, read: &Rules) -> bool {
    read.iter().len() == 0 && current.iter().len() > 0
}

/// Each fails only if rules are swapped in by hand while files are read.
const RELOAD_ATTEMPTS: usize = 10;

/// What the registry has to know of the rules.
fn installed(rules: &Rules, are_changed: bool) -> Vec<InstalledPolicy> {
    #[cfg(feature = "signed")]
    let documented = rules.documented();
    let of = |rule: &Rule| {
        let policy = InstalledPolicy::new(rule.policy().clone());
        let policy =
            policy.mode(rule.mode()).lock_out(rule.lock_out().copied()).of_changed_rules(are_changed);
        #[cfg(feature = "signed")]
        let policy = policy.set_by_document(documented.owner_of(rule.table()));
        policy
    };
    rules.iter().map(of).collect()
}

impl fmt::Debug for LiveRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.0.current.load();
        f.debug_struct("LiveRules")
            .field("generation", &version.generation)
            .field("rules", &version.rules)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
