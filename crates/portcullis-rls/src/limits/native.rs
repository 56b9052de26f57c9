//! Descriptors as requests, for native rules.

mod request;

use std::fmt;

use http_body_util::{BodyExt as _, Collected};
use portcullis::rules::{Door, LiveRules, RulesLayer, RulesRequirement};
use portcullis::{Decision, LayerError, Limiter, Policy};
use portcullis_tower::SelectLayer as _;
use portcullis_tower::joint::{
    self, ChargeDenied, JointDecision, JointRejection, JointRequest, JointReservation, TooMuchReserved,
};

use crate::CallError;
use crate::call::{Call, Descriptor, unit_of_length};
use crate::verdict::{Figures, Limit, LimitStatus, Status, Verdict};

/// Native rules, which decide about the requests that descriptors stand for.
pub(crate) struct NativeRules {
    limiter: Limiter,
    layer: RulesLayer,
    /// Rules that descriptors cannot serve are refused as long as it exists.
    _requirement: RulesRequirement,
}

impl NativeRules {
    pub(super) fn new(limiter: &Limiter, rules: &LiveRules) -> Result<Self, LayerError> {
        let requirement = rules.require_usable_by(Door::Serve)?;
        Ok(Self { limiter: limiter.clone(), layer: rules.layer(), _requirement: requirement })
    }

    /// Decides about all descriptors together. In a trial nothing is denied, and events tell what would be.
    pub(super) async fn decide(
        &self,
        call: &Call<'_>,
        is_trial: bool,
        charge_denied: ChargeDenied,
    ) -> Result<Verdict, CallError> {
        let JointDecision { decisions, rejected, response } =
            joint::decide(self.requests(call)?, is_trial, charge_denied).await;
        rejected.as_ref().map_or(Ok(()), undecided)?;
        let first = rejected.map(|rejected| rejected.request);
        let status = |(index, decision): (usize, Option<Decision>)| Status {
            over: first == Some(index) || decision.as_ref().is_some_and(|decision| !decision.is_allowed()),
            limit: decision.filter(Decision::is_metered).map(|decision| self.shown(&decision)),
            ..Status::default()
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        Ok(Verdict {
            over: first.is_some(),
            statuses: decisions.into_iter().enumerate().map(status).collect(),
            response: Some(http::Response::from_parts(parts, body)),
        })
    }

    /// Charges all rules of a call its hits, or none.
    pub(super) async fn reserve(
        &self,
        call: &Call<'_>,
        is_trial: bool,
    ) -> Result<JointReservation, CallError> {
        let amount = call.descriptors.first().map_or(0, |descriptor| descriptor.hits);
        let reserved = joint::reserve(self.requests(call)?, is_trial).await;
        let reserved = reserved.map_err(|TooMuchReserved { policy, limit }| CallError::AmountTooLarge {
            amount,
            policy,
            limit,
        })?;
        reserved.decision.rejected.as_ref().map_or(Ok(()), undecided)?;
        Ok(reserved)
    }

    /// The requests that the descriptors stand for.
    fn requests(&self, call: &Call<'_>) -> Result<Vec<JointRequest>, CallError> {
        let request = |(index, descriptor): (usize, &Descriptor<'_>)| {
            let invalid = |problem| CallError::NotNative { descriptor: index, problem };
            let parts = request::of(call.domain, descriptor).map_err(invalid)?;
            Ok(JointRequest { selection: self.layer.select(&parts), parts, units: descriptor.hits })
        };
        call.descriptors.iter().enumerate().map(request).collect()
    }

    /// The limit under its name, with the unit of time if its period is one.
    fn shown(&self, decision: &Decision) -> LimitStatus {
        let policy = self.limiter.engine().policies().policy(decision.policy());
        let period = policy.as_ref().and_then(period);
        let limit = Limit {
            requests_per_unit: u32::try_from(decision.limit()).unwrap_or(u32::MAX),
            unit: period.and_then(unit_of_length),
            name: decision.policy().as_str().to_owned(),
        };
        LimitStatus { limit, figures: Figures::from(decision) }
    }
}

/// The error of a call that is rejected without being denied.
fn undecided(rejected: &JointRejection) -> Result<(), CallError> {
    if rejected.error == Some(request::no_address()) {
        let (descriptor, problem) = (rejected.request, request::NO_ADDRESS);
        return Err(CallError::NotNative { descriptor, problem });
    }
    // That of a server that cannot decide.
    if rejected.status.is_server_error() {
        return Err(CallError::Undecided { status: rejected.status.as_u16() });
    }
    Ok(())
}

fn period(policy: &Policy) -> Option<std::time::Duration> {
    policy.strategy().quota().map(portcullis::Quota::period)
}

impl fmt::Debug for NativeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeRules").field("layer", &self.layer).finish_non_exhaustive()
    }
}
