//! The requests of a call, in groups that fit into one decision each.

use portcullis_engine::{Admitted, Keep, Refunds};

use super::group::Group;
use super::member::{Member, Refused};
use super::{ChargeDenied, JointDecision, JointRequest};

/// The requests of a call, and what was decided of them.
pub(super) struct Planned {
    pub(super) groups: Vec<Group>,
    /// The first request that is rejected whatever its limits say.
    refused: Option<(usize, Box<Refused>)>,
    pub(super) decision: JointDecision,
    /// How the groups were admitted, if the call is.
    pub(super) admitted: Vec<Admitted>,
}

impl Planned {
    pub(super) fn of(requests: Vec<JointRequest>, is_trial: bool) -> Self {
        let decision = JointDecision { decisions: vec![None; requests.len()], ..JointDecision::default() };
        let mut planned = Self { groups: Vec::new(), refused: None, decision, admitted: Vec::new() };
        for (number, request) in requests.into_iter().enumerate() {
            match Member::of(number, request, is_trial) {
                Ok(None) => {}
                Ok(Some(member)) => match planned.groups.last_mut() {
                    Some(last) if last.has_room_for(&member) => last.add(member),
                    _ => planned.groups.push(Group::of(member)),
                },
                // Those before it may be denied, and those behind it are not decided.
                Err(refused) => {
                    planned.refused = Some((number, refused));
                    break;
                }
            }
        }
        planned
    }

    /// Charges all groups, or none.
    pub(super) async fn decide(&mut self, charge_denied: ChargeDenied) {
        let Self { groups, refused, decision, admitted } = self;
        for group in &mut *groups {
            match group.decide(decision).await {
                Some(by) => admitted.push(by),
                None => break,
            }
        }
        if decision.rejected.is_none()
            && let Some((number, refused)) = refused.take()
        {
            let (error, status, response) = refused.respond().await;
            decision.reject(number, error, status, response);
        }
        if decision.rejected.is_some() {
            for (group, by) in groups.iter().zip(admitted.drain(..)) {
                Refunds::start(group.limits(), by.charged.as_ref(), None, Keep::Nothing).await;
            }
            let is_denied = groups.iter().any(Group::is_denied);
            if is_denied && charge_denied.includes(|| groups.iter().any(Group::reports)) {
                for group in groups {
                    group.use_up().await;
                }
            }
            return;
        }
        for (group, by) in groups.iter().zip(&*admitted) {
            group.admit(by, decision);
            let would_deny = by.shadows.iter().any(|shadow| !shadow.is_allowed());
            if would_deny && charge_denied.includes(|| groups.iter().any(Group::reports)) {
                group.use_up_tried(by).await;
            }
        }
        if let Some((last, by)) = groups.last().zip(admitted.last()) {
            decision.response = last.response(by);
        }
    }
}
