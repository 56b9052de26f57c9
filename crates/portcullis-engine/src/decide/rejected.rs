//! Why a request is not admitted.

use std::sync::Arc;

use portcullis_core::store::Outcome;
use portcullis_core::{Decision, FailureMode, Key, PolicyName, Retry, StoreError};

use super::Ask;
use crate::PolicySet;
use crate::Reason;
use crate::engine::{Limits, lock_outs};
use crate::event::{EventKeys, EventKind, FoundKeys, logs_rejections};

/// Why the limits reject a request.
#[derive(Clone, Debug)]
pub enum Rejected {
    /// A policy denies the request.
    Limited {
        /// The answer of the store.
        outcome: Outcome,
        /// The policies that were checked. A remembered denial has a decision about one of them only.
        checked: PolicySet,
        /// The narrowest key of the checks, by which retries are spread.
        key: Option<Key>,
    },
    /// The slot of the request in a queue, which is refunded, is too late for it.
    Late {
        /// The answer of the store, which has admitted the request.
        outcome: Outcome,
        /// The policies that were checked.
        checked: PolicySet,
    },
    /// Too many requests with a key are unsettled under a policy.
    Unsettled {
        /// The name of the policy.
        policy: PolicyName,
        /// The key.
        key: Key,
    },
    /// The store could not answer, and a policy rejects requests then.
    StoreFailed,
    /// The store is overloaded, or too many requests wait.
    Overloaded,
}

impl Rejected {
    /// The reason, as events have it.
    #[inline]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Limited { outcome, .. } | Self::Late { outcome, .. } => match outcome.decision().retry() {
                Some(Retry::Never) if outcome.decision().limit() == 0 => Reason::Limited,
                Some(Retry::Never) | None => Reason::NeverFits,
                _ if outcome.decisions().iter().any(Decision::is_blocked) => Reason::Blocked,
                Some(Retry::After(_) | Retry::Unknown) => Reason::Limited,
            },
            Self::Unsettled { .. } => Reason::Unsettled,
            Self::StoreFailed => Reason::StoreFailed,
            Self::Overloaded => Reason::Overloaded,
        }
    }

    /// The decision of each enforced policy if the request was limited; empty for any other reason.
    #[inline]
    pub fn decisions(&self) -> &[Decision] {
        match self {
            Self::Limited { outcome, .. } | Self::Late { outcome, .. } => outcome.decisions(),
            _ => &[],
        }
    }
}

impl Rejected {
    /// Whether the policy at `index` denies this key.
    fn denies(&self, limits: &Limits, index: usize, key: Key) -> bool {
        let (Self::Limited { outcome, .. } | Self::Late { outcome, .. }) = self else { return false };
        let name = limits.policies()[index].policy.name();
        outcome
            .checks()
            .iter()
            .zip(outcome.decisions())
            .any(|(check, decision)| !decision.is_allowed() && check.is_about(name, key))
    }
}

/// Rejects a request that an answer of the store denies.
pub(super) fn deny(
    limits: &Arc<Limits>,
    mut outcome: Outcome,
    ask: &Ask,
    keys: Option<&FoundKeys>,
) -> Rejected {
    if !ask.callers.is_empty() {
        outcome = ask.with_left_out(outcome);
    }
    reject(limits, Rejected::Limited { outcome, checked: ask.checked, key: ask.narrowest_key() }, keys)
}

/// Rejects a request because the store has failed, and a policy is closed then.
pub(super) fn store_failed(
    limits: &Arc<Limits>,
    error: &StoreError,
    ask: &Ask,
    keys: Option<&FoundKeys>,
) -> Rejected {
    let outlasts = |failure: FailureMode| {
        matches!(failure, FailureMode::OpenFor(_))
            && error.outage().is_some_and(|outage| !failure.is_open_after(outage))
    };
    let mut policies = ask.checked.indexes().map(|index| &limits.policies()[index].policy);
    if let Some(policy) = policies.find(|policy| outlasts(policy.failure_mode()))
        && limits.outage().outlast()
    {
        limits.emit(EventKind::OpenForExpired { policy: policy.name() }, || EventKeys::None);
    }
    reject(limits, Rejected::StoreFailed, keys)
}

pub(super) fn reject(limits: &Arc<Limits>, rejected: Rejected, keys: Option<&FoundKeys>) -> Rejected {
    emit(limits, &rejected, keys);
    rejected
}

/// Emits a rejection, and counts its denials for lock-outs. Those in a trial do not count: it has no effect on other doors.
pub(super) fn emit(limits: &Arc<Limits>, rejected: &Rejected, keys: Option<&FoundKeys>) {
    if let Rejected::Limited { outcome, .. } = rejected
        && !limits.is_trial()
    {
        lock_outs::count(limits, outcome);
    }
    // Its reason takes a while to find.
    if limits.engine().observers().are_present() || logs_rejections() {
        let kind = EventKind::Rejected { reason: rejected.reason(), decisions: rejected.decisions() };
        match keys {
            None => limits.emit(kind, || EventKeys::None),
            Some(keys) => emit_with_keys(limits, kind, rejected, keys),
        }
    }
}

#[cold]
fn emit_with_keys(limits: &Limits, kind: EventKind<'_>, rejected: &Rejected, keys: &FoundKeys) {
    let led = keys.led_by(limits.policies(), |index, key| rejected.denies(limits, index, key));
    limits.emit(kind, || EventKeys::Found(&led));
}
