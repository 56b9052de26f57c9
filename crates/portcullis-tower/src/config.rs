//! The configuration of a layer, and its way to the store:
//!
//! ```text
//! LayerConfig ──► Registry   shared by all layers of a limiter ──┐
//!      └────────► Limits     policies and log of this layer ─────┴──► Engine ──► Store
//! ```

mod fast_path;
mod live;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use portcullis_core::store::Checks;
use portcullis_core::{Decision, Mistakes};

use crate::body::discard;
use crate::limit::{KeySource, Limit};
use crate::registry::policy_sets::PreparedSet;
use crate::{LayerError, Registry};
use live::Version;
pub(crate) use live::{CurrentConfig, LiveConfig};
use portcullis_engine::charge::Marks;
use portcullis_engine::policies::Membership;
use portcullis_engine::{EventKeys, EventKind, FoundKeys};
use portcullis_engine::{Limits, Route, Signals, report};
use portcullis_identity::lists::Lists;
use portcullis_response::internal::{Fraction, ResponseSettings, ShownPolicy};

/// The policies and options of a layer. It has at least one policy, unless it only denies.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct LayerConfig {
    pub(crate) registry: Arc<Registry>,
    /// The policies, with how their keys and costs are found.
    policies: Arc<Vec<Limit>>,
    /// What decides by the policies.
    pub(crate) limits: Arc<Limits>,
    pub(crate) responses: Arc<ResponseSettings>,
    /// Boxed, because most layers have none. `None` if there are no matchers.
    pub(crate) lists: Option<Box<Lists>>,
    pub(crate) limits_preflights: bool,
    /// Whether handlers get the charge of each request.
    pub(crate) with_charge: bool,
    /// Whether the cost of a policy is a reservation.
    pub(crate) reserves: bool,
    pub(crate) lookup_deadline: Duration,
    pub(crate) ready_deadline: Duration,
    /// The bytes that are read of the body of a rejected request.
    pub(crate) discarded_bytes: u64,
    /// Whether callers may have quotas of their own that no look-up of a key finds.
    pub(crate) has_caller_quotas: bool,
    /// See [`is_fast`](LayerConfig::is_fast).
    is_fast: AtomicBool,
    /// The requests that layers inside of this one notice before no more are marked.
    pub(crate) marks: Marks,
    /// Keeps the names of the policies registered.
    membership: Arc<Membership>,
    version: Version,
}

impl LayerConfig {
    /// The configuration of a layer to which limits are [added](Self::add).
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let joined = registry.engine().join(Box::default(), None);
        let membership = joined.expect("only a policy that is added can be refused");
        let limits = Arc::new(Limits::new(Arc::clone(registry.engine()), Vec::new()));
        let responses = Arc::new(registry.default_responses());
        Self::prepared(registry, PreparedSet { policies: Arc::default(), limits, responses, membership })
    }

    /// The configuration of a set of policies that handlers check.
    pub(crate) fn prepared(registry: Arc<Registry>, set: PreparedSet) -> Self {
        let PreparedSet { policies, limits, responses, membership } = set;
        Self {
            registry,
            policies,
            limits,
            responses,
            lists: None,
            limits_preflights: false,
            with_charge: false,
            reserves: false,
            lookup_deadline: LOOKUP_DEADLINE,
            ready_deadline: READY_DEADLINE,
            discarded_bytes: discard::BYTES,
            has_caller_quotas: false,
            is_fast: AtomicBool::new(false),
            marks: Marks::default(),
            membership,
            version: Version::default(),
        }
    }

    /// Names the route of the layer.
    pub(crate) fn set_route(&mut self, route: &str) {
        self.limits = Arc::new(self.limits.with_route(Route::given(route)));
    }

    /// Returns this layer among others that are chosen for requests, which log together.
    pub(crate) fn with_signals(&self, signals: Arc<Signals>) -> Self {
        self.membership.is_replaced();
        let limits = Arc::new(self.limits.with_signals(signals));
        Self { limits, ..self.clone() }
    }

    /// Returns this layer for a door that lets requests pass which it rejects.
    pub(crate) fn in_trial(&self) -> Self {
        Self { limits: Arc::new(self.limits.in_trial()), ..self.clone() }
    }

    /// What checks of handlers need of this configuration.
    pub(crate) fn prepare(&self) -> PreparedSet {
        PreparedSet {
            policies: Arc::clone(&self.policies),
            limits: Arc::clone(&self.limits),
            responses: Arc::clone(&self.responses),
            membership: Arc::clone(&self.membership),
        }
    }

    /// Whether a request gets its charge: its handler may read it, or a policy reads it after the response.
    #[inline]
    pub(crate) fn leaves_charge(&self) -> bool {
        self.with_charge || self.reserves || self.limits.corrects() || self.limits.holds_permits()
    }

    pub(crate) fn policies(&self) -> &[Limit] {
        &self.policies
    }

    /// Registers limits and adds them.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them. The configuration cannot be used then.
    pub(crate) fn add(
        &mut self,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<(), Mistakes<LayerError>> {
        let mut errors = Vec::new();
        // Limits that are refused are not added, and those behind them are compared with them.
        let mut names: Vec<_> = self.policies.iter().map(|before| before.policy.name().clone()).collect();
        let mut before = self.policies.last().cloned();
        for limit in limits {
            if names.len() >= Checks::MAX {
                errors.push(LayerError::TooMany);
                break;
            }
            let limit = limit.by_default(before.as_ref());
            before = Some(limit.clone());
            let name = limit.policy.name().clone();
            if names.is_empty() && matches!(limit.key, KeySource::Before) {
                errors.push(LayerError::NoKey { policy: name.clone() });
            }
            let mistakes = limit.mistakes();
            let is_valid = mistakes.is_empty();
            errors.extend(mistakes);
            if names.contains(&name) {
                errors.push(LayerError::Duplicate { policy: name });
            } else {
                errors.extend(self.register(limit, is_valid).err());
                names.push(name);
            }
        }
        Mistakes::none_or(errors, ())?;
        self.render();
        Ok(())
    }

    /// Registers a limit and adds it, unless the limiter refuses it.
    fn register(&mut self, mut limit: Limit, is_valid: bool) -> Result<(), LayerError> {
        let engine = self.registry.engine();
        let members = self.policies.iter().chain([&limit]).map(Limit::member).collect();
        self.membership = engine.join(members, Some(&limit.policy))?;
        if is_valid {
            limit.share_lock_out(engine)?;
        }
        limit.count_lookups_in(self.registry.lookup_counts());
        self.reserves |= limit.reservation.is_some();
        Arc::make_mut(&mut self.policies).push(limit);
        Ok(())
    }

    pub(crate) fn change_responses(&mut self, change: impl FnOnce(&mut ResponseSettings)) {
        change(Arc::make_mut(&mut self.responses));
        self.render();
    }

    /// Emits that a request is admitted. `shadows` are the decisions of the policies that are tried out.
    #[inline]
    pub(crate) fn emit_admitted(
        &self,
        decisions: &[Decision],
        shadows: &[Decision],
        keys: Option<&FoundKeys>,
    ) {
        if !self.responses.soft_limits().is_empty() {
            self.emit_soft_limits(decisions, keys);
        }
        report::admitted(&self.limits, decisions, shadows, keys);
    }

    #[cold]
    fn emit_soft_limits(&self, decisions: &[Decision], keys: Option<&FoundKeys>) {
        for decision in self.responses.soft_limits().reached(decisions) {
            self.limits.emit(EventKind::SoftLimitReached { decision }, || EventKeys::found(keys));
        }
    }

    fn render(&mut self) {
        self.has_caller_quotas = self.policies().iter().any(|limit| limit.quota.is_some());
        let limits = self.policies.iter().map(Limit::to_limit).collect();
        self.limits = Arc::new(self.limits.with_policies(limits));
        let enforced: Vec<_> = shown(&self.policies).collect();
        Arc::make_mut(&mut self.responses).render(&enforced);
    }

    /// The policies that may reject requests, as responses show them.
    #[cfg(feature = "openapi")]
    pub(crate) fn shown(&self) -> Vec<ShownPolicy<'_>> {
        shown(&self.policies).collect()
    }
}

fn shown(policies: &[Limit]) -> impl Iterator<Item = ShownPolicy<'_>> {
    let enforced = policies.iter().enumerate().filter(|(_, limit)| limit.is_enforced_for_some());
    enforced.map(|(index, limit)| ShownPolicy {
        index,
        policy: &limit.policy,
        is_listed: !limit.is_hidden,
        warn_at: limit.warn_at.and_then(|fraction| Fraction::new(fraction).ok()),
    })
}

impl Clone for LayerConfig {
    /// A layer that is made from another one starts with an empty log state.
    fn clone(&self) -> Self {
        Self {
            registry: Arc::clone(&self.registry),
            policies: Arc::clone(&self.policies),
            limits: Arc::new(self.limits.anew()),
            responses: Arc::clone(&self.responses),
            lists: self.lists.clone(),
            limits_preflights: self.limits_preflights,
            with_charge: self.with_charge,
            reserves: self.reserves,
            lookup_deadline: self.lookup_deadline,
            ready_deadline: self.ready_deadline,
            discarded_bytes: self.discarded_bytes,
            has_caller_quotas: self.has_caller_quotas,
            is_fast: AtomicBool::new(false),
            marks: Marks::default(),
            membership: Arc::clone(&self.membership),
            version: Version::default(),
        }
    }
}

/// A directory, or the cache in front of it, answers in milliseconds; after a second, many clients have disconnected.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

/// Longer than a healthy service needs, and short enough for a client that still waits.
const READY_DEADLINE: Duration = Duration::from_secs(5);

impl fmt::Debug for LayerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.policies().iter().map(|limit| limit.policy.name())).finish()
    }
}
