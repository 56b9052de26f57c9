//! Calls that reserve units, which are settled later.

use std::sync::Arc;

use portcullis_core::store::{Check, Outcome};
use portcullis_core::{PolicyName, Receipt};
use portcullis_engine::{Asked, Limits, OnAbort};

use super::group::Group;
use super::planned::Planned;
use super::{ChargeDenied, JointDecision, JointRequest, usage};

/// What a call has reserved.
#[derive(Debug)]
pub struct JointReservation {
    /// The decision about the call.
    pub decision: JointDecision,
    /// The limits by which it is settled. `None` if no policy counts the call.
    pub limits: Option<Arc<Limits>>,
    /// What is held, of each policy and key: nothing if the call is denied. Policies that are tried out keep what they were charged.
    pub held: Vec<HeldUnits>,
}

/// Units that one key under one policy holds for a reservation.
#[derive(Debug)]
pub struct HeldUnits {
    /// What was charged. Of a reservation of 0 units, nothing.
    pub receipt: Receipt,
    /// How many of the requests are charged to this key under this policy, each with all units.
    pub weight: u64,
    /// What stays charged if the reservation ends without being settled.
    pub on_abort: OnAbort,
}

/// A reservation has more units than a policy ever admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuchReserved {
    /// The policy.
    pub policy: PolicyName,
    /// Its limit.
    pub limit: u64,
}

/// Decides about the requests of a call like [`decide`](super::decide), and returns what they hold. A call that is denied charges nothing.
///
/// # Errors
///
/// Returns an error if a policy that needs no look-up never admits as many units. Nothing is charged then.
///
/// # Cancel safety
///
/// If the future is dropped, what was charged may stay so.
pub async fn reserve(
    requests: Vec<JointRequest>,
    is_trial: bool,
) -> Result<JointReservation, TooMuchReserved> {
    let units = requests.first().map_or(0, |request| request.units);
    let mut planned = Planned::of(requests, is_trial);
    // A limit of 0 denies, as it does any request.
    let too_small = |check: &Check| (1..units).contains(&check.policy.strategy().limit());
    let first = planned.groups.iter().find_map(|group| usage::checks(group.members(), too_small));
    if let Some(check) = first.as_ref().and_then(|checks| checks.iter().next()) {
        let limit = check.policy.strategy().limit();
        return Err(TooMuchReserved { policy: check.policy.name().clone(), limit });
    }
    planned.decide(ChargeDenied::Never).await;
    let Planned { groups, decision, admitted, .. } = planned;
    let mut held = Vec::new();
    for (group, by) in groups.iter().zip(admitted) {
        held.extend(by.charged.into_iter().flat_map(receipts).filter_map(|receipt| group.hold(receipt)));
    }
    Ok(JointReservation { decision, limits: groups.first().map(|group| Arc::clone(group.limits())), held })
}

/// The receipts of an outcome. What was asked for nothing has a blank one.
pub fn receipts(outcome: Outcome) -> Vec<Receipt> {
    let blank = |(index, check): (usize, &Check)| {
        let decision = outcome.decisions().get(index).filter(|decision| decision.is_metered())?;
        let receipt = Receipt::blank(check.policy.clone(), check.key, decision.at());
        (check.cost == 0).then(|| receipt.charged_by(outcome.fallback_id_of(index)))
    };
    let mut receipts: Vec<Receipt> = outcome.checks().iter().enumerate().filter_map(blank).collect();
    // A slot in the middle of a queue cannot be freed.
    let charged = outcome
        .into_receipts()
        .map(|receipt| if receipt.policy().strategy().queues() { receipt.if_newest() } else { receipt });
    receipts.extend(charged);
    receipts
}

impl Group {
    /// `None` if all that is asked there is free.
    fn hold(&self, receipt: Receipt) -> Option<HeldUnits> {
        let (policy, key) = (receipt.policy().name(), receipt.key());
        let mut asking = self.members().iter().filter_map(|member| {
            let mut asked = member.asks().flat_map(portcullis_engine::Ask::enforced);
            let is_own =
                |asked: &&Asked| asked.cost > 0 && asked.is_about(&member.config.limits, policy, key);
            let asked = asked.find(is_own)?;
            Some(member.config.policies()[asked.index].reservation)
        });
        let on_abort = asking.next()?.unwrap_or_default();
        let weight = 1 + asking.count();
        Some(HeldUnits { on_abort, weight: u64::try_from(weight).unwrap_or(u64::MAX), receipt })
    }
}
