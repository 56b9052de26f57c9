//! What is held for a request until it goes to the inner service, in its extensions.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http::Extensions;
use portcullis_core::{Key, Policy, Receipt};

use crate::config::LayerConfig;
use crate::unsettled::UnsettledPermit;

/// In the extensions of a request from its first check to its admission, so that steps in between need not know of it.
#[derive(Clone, Default)]
struct Holds(Arc<Mutex<Lists>>);

type Lists = (Vec<Look>, Vec<(usize, Receipt)>);

/// A request that was checked without a charge under one policy.
pub(crate) struct Look {
    config: Arc<LayerConfig>,
    policy: usize,
    key: Key,
    /// The policy with the quota of a grant, if the request was decided under one.
    granted: Option<Policy>,
    units: u64,
    permit: Option<UnsettledPermit>,
    /// Whether a request that is rejected for its identity stays charged.
    stays_on_rejection: bool,
    /// Whether the request is charged if it ends now.
    is_owed: bool,
}

impl Look {
    /// The index of the policy in the layer.
    pub(super) fn policy(&self) -> usize {
        self.policy
    }

    pub(super) fn into_parts(mut self) -> (u64, Option<UnsettledPermit>) {
        self.is_owed = false;
        (self.units, self.permit.take())
    }

    pub(super) fn config(&self) -> &Arc<LayerConfig> {
        &self.config
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    pub(super) fn take_permit(&mut self) -> Option<UnsettledPermit> {
        self.permit.take()
    }

    /// The receipt to settle for a request that ends now, once.
    pub(super) fn take_owed(&mut self) -> Option<Receipt> {
        let policy = self.granted.as_ref().unwrap_or(&self.config.policies()[self.policy].policy);
        mem::take(&mut self.is_owed)
            .then(|| Receipt::blank(policy.clone(), self.key, SystemTime::now().into()))
    }
}

/// Records that a request was checked without a charge under the policy at `policy`, by a key and with units to charge later.
/// `stays_on_rejection` is whether they are charged if the request is rejected for its identity.
///
/// Returns `false` if too many requests with this key are unsettled.
pub(crate) fn look(
    config: &Arc<LayerConfig>,
    (policy, key, units): (usize, Key, u64),
    stays_on_rejection: bool,
    extensions: &mut Extensions,
) -> bool {
    let layer_policy = &config.policies()[policy];
    let strategy = layer_policy.policy.strategy();
    let default = || usize::try_from(strategy.limit()).unwrap_or(usize::MAX);
    let bound = layer_policy.outcome.as_ref().and_then(|rule| rule.max_unsettled).unwrap_or_else(default);
    let permit = config.registry.unsettled().acquire(&layer_policy.policy, key, bound);
    let is_permitted = permit.is_some();
    if is_permitted {
        let look = Look {
            config: Arc::clone(config),
            policy,
            key,
            granted: None,
            units,
            permit,
            stays_on_rejection,
            is_owed: false,
        };
        with(extensions, |(looks, _)| looks.push(look));
    }
    is_permitted
}

/// Whether a request was checked without a charge under the policy at `policy`.
pub(crate) fn looks_at(extensions: &Extensions, policy: usize) -> bool {
    let looks = |holds: &Holds| lock(holds, |(looks, _)| looks.iter().any(|look| look.policy == policy));
    extensions.get().is_some_and(looks)
}

/// Records that the policy at `policy` has decided under the quota of a grant.
#[cold]
pub(crate) fn set_granted(extensions: &Extensions, policy: usize, granted: &Policy) {
    if let Some(holds) = extensions.get() {
        let is_own = |look: &&mut Look| look.policy == policy;
        let set = |look: &mut Look| look.granted = Some(granted.clone());
        lock(holds, |(looks, _)| looks.iter_mut().filter(is_own).for_each(set));
    }
}

/// Sets whether a request that ends now is charged under the policies whose charges stay when it is rejected for its identity.
pub(crate) fn set_owed(extensions: &Extensions, is_owed: bool) {
    if let Some(holds) = extensions.get() {
        let set = |look: &mut Look| look.is_owed = is_owed && look.stays_on_rejection;
        lock(holds, |(looks, _)| looks.iter_mut().for_each(set));
    }
}

/// Records what a request was charged under the shadow policy at `policy`.
pub(crate) fn hold_shadow(policy: usize, receipt: Receipt, extensions: &mut Extensions) {
    with(extensions, |(_, shadows)| shadows.push((policy, receipt)));
}

/// Takes what is held for a request.
pub(super) fn take(extensions: &mut Extensions) -> Lists {
    extensions.remove().map(|holds| lock(&holds, mem::take)).unwrap_or_default()
}

fn with(extensions: &mut Extensions, change: impl FnOnce(&mut Lists)) {
    lock(extensions.get_or_insert_default(), change);
}

/// The lists are consistent between any two statements, so a poisoned lock is safe to use.
fn lock<T>(Holds(lists): &Holds, read: impl FnOnce(&mut Lists) -> T) -> T {
    read(&mut lists.lock().unwrap_or_else(PoisonError::into_inner))
}
