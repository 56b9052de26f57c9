//! Reserves what the limits of a call have, and finds their policies again.

use std::sync::Arc;

use portcullis::rules::envoy::{Descriptors, Unit};
use portcullis::store::{FixedWindow, Receipt};
use portcullis::{Policy, PolicyName, PolicySettings, Quota};
use portcullis_engine::{Limits as EngineLimits, OnAbort};
use portcullis_tower::joint::{self, HeldUnits};

use super::plan::{Item, OVERRIDE, Plan, Role};
use super::{Limits, decide};
use crate::call::Call;
use crate::{CallError, RateLimitService};

/// What a call has reserved.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// Whether it is denied. Then nothing is charged.
    pub(crate) over: bool,
    pub(crate) held: Vec<HeldUnits>,
    /// The limits by which it is settled.
    pub(crate) limits: Arc<EngineLimits>,
}

impl Limits {
    /// Charges all limits of a call its hits, or none.
    pub(crate) async fn reserve(
        &self,
        service: &RateLimitService,
        call: &Call<'_>,
    ) -> Result<Reservation, CallError> {
        match self {
            Self::Envoy(descriptors) => {
                let plan = Plan::of(service, &descriptors.load(), call);
                let limits = Arc::new(service.no_limits.with_policies(plan.limits()));
                of_files(&plan, limits).await
            }
            Self::Native(rules) => {
                let reserved = rules.reserve(call, service.shadow).await?;
                let limits = reserved.limits.unwrap_or_else(|| Arc::clone(&service.no_limits));
                Ok(Reservation { over: reserved.decision.rejected.is_some(), held: reserved.held, limits })
            }
        }
    }

    /// The policy of this name, whose limit was this one when it was charged.
    pub(crate) fn policy(&self, service: &RateLimitService, name: &PolicyName, limit: u64) -> Option<Policy> {
        match self {
            Self::Native(_) => service.limiter.policy(name),
            Self::Envoy(descriptors) => policy_of_files(service, &descriptors.load(), name).or_else(|| {
                let unit = name.as_str().strip_prefix(OVERRIDE)?;
                let unit = Unit::ALL.into_iter().find(|known| known.as_str() == unit)?;
                let window = Quota::new(limit, unit.duration(), None).and_then(FixedWindow::new);
                let policy = Policy::try_new(name.as_str(), window, PolicySettings::default()).ok()?;
                Some(service.with_mode(&policy))
            }),
        }
    }
}

/// Limits in shadow mode keep what they are charged.
async fn of_files(plan: &Plan, limits: Arc<EngineLimits>) -> Result<Reservation, CallError> {
    let is_too_small = |item: &&Item| {
        item.role != Role::Shadow && item.hits / item.descriptors() > item.policy.strategy().limit()
    };
    if let Some(item) = plan.items.iter().find(is_too_small) {
        let (policy, limit) = (item.policy.name().clone(), item.policy.strategy().limit());
        return Err(CallError::AmountTooLarge { amount: item.hits / item.descriptors(), policy, limit });
    }
    let (over, charged) = decide::reserve(plan, &limits).await?;
    let with_weight = |receipt: Receipt| {
        let is_of = |item: &&Item| item.key == receipt.key() && item.policy.name() == receipt.policy().name();
        let weight = plan.items.iter().find(is_of).map_or(1, Item::descriptors);
        HeldUnits { receipt, weight, on_abort: OnAbort::default() }
    };
    let held = charged.into_iter().flat_map(joint::receipts).map(with_weight).collect();
    Ok(Reservation { over, held, limits })
}

fn policy_of_files(
    service: &RateLimitService,
    descriptors: &Descriptors,
    name: &PolicyName,
) -> Option<Policy> {
    let mut policies = descriptors.limits().iter().filter_map(|limit| limit.policy().ok());
    policies.find(|policy| policy.name() == name).map(|policy| service.with_mode(policy))
}
