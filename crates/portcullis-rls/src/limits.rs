//! What the descriptors of a call are compared with.

mod decide;
mod descriptors;
mod in_use;
mod native;
mod plan;
mod reserve;

use std::sync::Arc;

use portcullis::rules::LiveRules;
use portcullis::{LayerError, Limiter};
use portcullis_log::codes;

use crate::{CallError, ChargeDeniedHits, RateLimitService, call, verdict};
pub(crate) use in_use::LimitsInUse;
use native::NativeRules;
use plan::Plan;
pub(crate) use reserve::Reservation;

pub use descriptors::SharedDescriptors;

/// What descriptors are compared with.
#[derive(Clone, Debug)]
pub(super) enum Limits {
    Envoy(SharedDescriptors),
    Native(Arc<NativeRules>),
}

impl Limits {
    pub(super) fn native(limiter: &Limiter, rules: &LiveRules) -> Result<Self, LayerError> {
        Ok(Self::Native(Arc::new(NativeRules::new(limiter, rules)?)))
    }

    /// Decides a call by the settings of the service.
    pub(super) async fn decide(
        &self,
        service: &RateLimitService,
        call: &call::Call<'_>,
        charge_denied: ChargeDeniedHits,
    ) -> Result<verdict::Verdict, CallError> {
        match self {
            Self::Envoy(descriptors) => {
                let descriptors = descriptors.load();
                let plan = Plan::of(service, &descriptors, call);
                if plan.items.is_empty() && !descriptors.has_domain(call.domain) {
                    log_unknown_domain(service, call.domain);
                }
                let limits = Arc::new(service.no_limits.with_policies(plan.limits()));
                let uses_up = charge_denied.includes(|| call.is_report());
                decide::decide(&plan, &limits, uses_up).await
            }
            Self::Native(rules) => rules.decide(call, service.shadow, charge_denied).await,
        }
    }
}

/// Such a call is answered with `OK`, as by Envoy's service.
fn log_unknown_domain(service: &RateLimitService, domain: &str) {
    service.unknown_domains.count(0, None, || {
        let domain: String = domain.chars().take(SHOWN_CHARS).collect();
        move |counted| {
            tracing::warn!(
                code = %codes::UNKNOWN_DOMAIN,
                domain,
                calls = counted.events,
                "no file has the domain of a call, so that nothing limits it: compare the domain of Envoy's filter with those of the files; counted \
                 since the last such line, and this is one of the domains"
            );
        }
    });
}

/// A domain may have a thousand bytes.
const SHOWN_CHARS: usize = 100;
