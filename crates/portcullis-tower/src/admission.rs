//! The door of HTTP requests: finds what a request asks of its limits, and lets it through or rejects it.
//!
//! It does not depend on the inner service, or on the types of bodies, except to recognise a preflight.

pub(crate) mod admit;
pub(crate) mod fast_path;
pub(crate) mod later;
mod nesting;
mod off;
pub(crate) mod plan;
pub(crate) mod reject;

use std::sync::Arc;

use http::request::Parts;
use http_body::Body;

use crate::charge::ChargeBasis;
use crate::charge::response_context::ResponseContext;
use crate::config::LayerConfig;
use portcullis_engine::{Now, StoreCall, now};

pub(crate) use later::{Decided, Waiting};
use plan::Plan;
pub(crate) use reject::RejectedRequest;
pub(crate) use reject::emit_without_key;

/// How far a request is decided at once.
pub(crate) enum Started {
    /// The request goes to the inner service, which is called next.
    Admitted(ResponseContext),
    Rejected(RejectedRequest),
    /// With the call of the store for the checks of the plan, if it was called.
    Later(Box<(Plan, Option<StoreCall>)>),
}

/// Decides about a request as far as that is possible at once.
#[inline(never)]
pub(crate) fn start(config: &Arc<LayerConfig>, parts: &mut Parts, body: &impl Body) -> Started {
    if config.registry.is_off() {
        off::admit(config, &mut parts.extensions);
        return Started::Admitted(ResponseContext::default());
    }
    start_planned(config, plan::of(config, parts, body), parts)
}

fn start_planned(config: &Arc<LayerConfig>, mut plan: Plan, parts: &mut Parts) -> Started {
    let (limits, ask) = (&config.limits, &plan.ask);
    if plan.looks_up {
        return Started::Later(Box::new((plan, None)));
    }
    if ask.is_empty() {
        return match plan.rejection.take() {
            Some(rejection) => Started::Rejected(reject::planned(config, &rejection, parts, ask.keys())),
            None => Started::Admitted(admit::uncounted(config, ask.keys())),
        };
    }
    if plan.rejection.is_some() || !ask.is_decided_by_answer(limits) {
        return Started::Later(Box::new((plan, None)));
    }
    match now::decide(limits, ask) {
        Now::One(asked, ready) => {
            let basis = || ChargeBasis::Single(asked, ready);
            Started::Admitted(admit::at_once(config, basis, ask.keys(), parts))
        }
        Now::All(mut call) => {
            let basis = || ChargeBasis::Decided(now::taken(&mut call));
            Started::Admitted(admit::at_once(config, basis, ask.keys(), parts))
        }
        Now::Rejected(rejected) => Started::Rejected(reject::by_limits(config, &rejected, parts)),
        Now::Later(call) => Started::Later(Box::new((plan, call))),
    }
}
