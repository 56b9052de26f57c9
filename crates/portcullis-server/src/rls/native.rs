//! Descriptors as requests, for native rules.

mod request;

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use portcullis::key::KeyError;
use portcullis::rules::{Door, LiveRules, RulesLayer, RulesRequirement, RulesService};
use portcullis::{Charge, Decision, LayerError, Limiter, Policy};
use tower::{Layer as _, Service, ServiceExt as _};

use super::CallError;
use super::call::{Call, Descriptor, unit_of_length};
use super::verdict::{Figures, Limit, LimitStatus, Status, Verdict};
use crate::outcome::{self, Admitted};

type Body = Empty<Bytes>;

/// Native rules, around a service that returns what was charged.
pub(super) struct NativeRules {
    limiter: Limiter,
    layer: RulesLayer,
    /// Rules that descriptors cannot serve are refused as long as it exists.
    _requirement: RulesRequirement,
}

/// The decision on one descriptor.
struct Decided {
    status: Status,
    charge: Option<Charge>,
    response: Response<Bytes>,
}

/// Why there is no decision on a descriptor.
enum Undecided {
    /// A rule needs the address of the client, and no entry has one.
    NoAddress,
    /// The rules have answered as a server that fails.
    Failed(StatusCode),
}

impl Undecided {
    fn of(&self, descriptor: usize) -> CallError {
        match self {
            Self::NoAddress => CallError::NotNative { descriptor, problem: request::NO_ADDRESS },
            Self::Failed(status) => CallError::Undecided { status: status.as_u16() },
        }
    }
}

impl NativeRules {
    pub(super) fn new(limiter: &Limiter, rules: &LiveRules) -> Result<Self, LayerError> {
        let requirement = rules.require_usable_by(Door::Serve)?;
        // The decision of a denial is in the response then.
        let limiter = limiter.clone().decision_in_response();
        Ok(Self { limiter, layer: rules.layer(), _requirement: requirement })
    }

    pub(super) async fn decide(&self, call: &Call<'_>) -> Result<Verdict, CallError> {
        let mut verdict = Verdict::default();
        let mut charges: Vec<Charge> = Vec::new();
        let requests: Vec<_> = call
            .descriptors
            .iter()
            .enumerate()
            .map(|(index, descriptor)| {
                let invalid = |problem| CallError::NotNative { descriptor: index, problem };
                request::of(call.domain, descriptor).map_err(invalid)
            })
            .collect::<Result<_, _>>()?;
        for (index, (descriptor, request)) in call.descriptors.iter().zip(requests).enumerate() {
            if verdict.over {
                verdict.statuses.push(Status::default());
                continue;
            }
            let decided = match self.decide_one(descriptor, request).await {
                Ok(decided) => decided,
                Err(undecided) => {
                    refund(&charges).await;
                    return Err(undecided.of(index));
                }
            };
            verdict.over = decided.status.over;
            verdict.statuses.push(decided.status);
            charges.extend(decided.charge);
            // The response of the denial, or else of the descriptor that is decided last.
            verdict.response = Some(decided.response);
        }
        if verdict.over {
            refund(&charges).await;
        }
        Ok(verdict)
    }

    async fn decide_one(
        &self,
        descriptor: &Descriptor<'_>,
        request: Request<Body>,
    ) -> Result<Decided, Undecided> {
        let Ok(mut response) = self.service().oneshot(request).await;
        let rejected = outcome::rejection(&mut response);
        let (mut parts, body) = response.into_parts();
        if parts.extensions.get::<KeyError>() == Some(&request::no_address()) {
            return Err(Undecided::NoAddress);
        }
        let charge = parts.extensions.remove::<Charge>();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let mut decision = charge.as_ref().map(Charge::decision);
        let mut over = rejected.map_or(Ok(false), is_denial)?;
        if over {
            decision = parts.extensions.remove::<Decision>();
        }
        if let Some(charge) = charge.as_ref().filter(|_| !over) {
            match descriptor.hits {
                0 => {
                    // Without an answer the hit may stay charged.
                    let _ = charge.refund().await;
                    decision = Some(charge.decision());
                }
                1 => {}
                hits => match charge.check(hits - 1).await {
                    Ok(further) => decision = Some(further),
                    Err(limited) => {
                        let denied = is_denial(limited.status());
                        let _ = charge.refund().await;
                        over = denied?;
                        decision = Some(charge.decision());
                    }
                },
            }
        }
        let charge = charge.filter(|_| !over && descriptor.hits > 0);
        let limit =
            decision.as_ref().filter(|decision| decision.is_metered()).map(|decision| self.shown(decision));
        let status = Status { over, limit, ..Status::default() };
        Ok(Decided { status, charge, response: Response::from_parts(parts, body) })
    }

    fn service(&self) -> RulesService<Inner> {
        self.layer.layer(Inner)
    }

    /// The limit under its name, with the unit of time if its period is one.
    fn shown(&self, decision: &Decision) -> LimitStatus {
        let policy = self.limiter.policy(decision.policy());
        let period = policy.as_ref().and_then(period);
        let limit = Limit {
            requests_per_unit: u32::try_from(decision.limit()).unwrap_or(u32::MAX),
            unit: period.and_then(unit_of_length),
            name: decision.policy().as_str().to_owned(),
        };
        LimitStatus { limit, figures: Figures::from(decision) }
    }
}

/// Returns what was charged. Without an answer it may stay charged.
async fn refund(charges: &[Charge]) {
    for charge in charges {
        let _ = charge.refund().await;
    }
}

/// Whether a rejection denies the request: always, unless it is that of a server that cannot decide, which is an error.
fn is_denial(status: StatusCode) -> Result<bool, Undecided> {
    if status.is_server_error() { Err(Undecided::Failed(status)) } else { Ok(true) }
}

fn period(policy: &Policy) -> Option<std::time::Duration> {
    policy.strategy().quota().map(portcullis::Quota::period)
}

/// The service behind the rules: its response has the charge of the request.
#[derive(Clone, Copy, Debug)]
struct Inner;

impl Service<Request<Body>> for Inner {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut response = Response::new(Body::new());
        response.extensions_mut().insert(Admitted);
        if let Some(charge) = request.extensions_mut().remove::<Charge>() {
            response.extensions_mut().insert(charge);
        }
        ready(Ok(response))
    }
}

impl fmt::Debug for NativeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeRules").field("layer", &self.layer).finish_non_exhaustive()
    }
}
