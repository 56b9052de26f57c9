//! The way of most requests: one synchronous key, one check, and nothing else to consider. Without it they take 10 to 27 % more
//! instructions (`cargo xtask bench instructions`).

use std::slice;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::{Started, admit, plan, reject, start_planned};
use crate::charge::ChargeBasis;
use crate::charge::response_context::ResponseContext;
use crate::config::LayerConfig;
use crate::limit::{KeySource, Limit, ResolvedKey};
use portcullis_engine::Asked;
use portcullis_engine::now::{self, One};

/// The only policy, if the request can go this way. The keys of its events have to be kept otherwise, and OPTIONS may be a preflight.
#[inline]
pub(crate) fn policy<'a>(config: &'a LayerConfig, parts: &Parts) -> Option<&'a Limit> {
    let applies = config.is_fast() && !config.limits.wants_keys() && parts.method != Method::OPTIONS;
    if applies { config.policies().first() } else { None }
}

/// Decides about a request.
pub(crate) fn start(config: &Arc<LayerConfig>, limit: &Limit, parts: &mut Parts) -> Started {
    let KeySource::Sync(extractor) = &limit.key else { unreachable!("the key of a fast layer is there") };
    let key = match ResolvedKey::find(&**extractor, config.registry.secret(), parts) {
        Ok(ResolvedKey::Known(key)) => key,
        without_key => return start_planned(config, plan::without_key(config, &without_key, parts), parts),
    };
    let asked = Asked { index: 0, key, cost: limit.cost_of(parts) };
    let mut answer = now::check_one(&config.limits, asked);
    match &answer {
        Some(Ok(ready)) if now::passes(&ready.decision) => {
            if !admit::makes_charge(config, &parts.extensions) {
                admit::counted(config, slice::from_ref(&ready.decision), None, &[], &mut parts.extensions);
                return Started::Admitted(ResponseContext::default());
            }
            // From where the store has left it, because it is large.
            let basis = || ChargeBasis::Single(asked, now::taken_one(&mut answer));
            Started::Admitted(admit::at_once(config, basis, None, parts))
        }
        Some(Ok(ready)) if !ready.decision.is_allowed() => reject_one(config, asked, &mut answer, parts),
        _ => {
            let call = now::call_one(&config.limits, asked, answer);
            Started::Later(Box::new((plan::of_one(config, asked), Some(call))))
        }
    }
}

#[inline(never)]
fn reject_one(config: &Arc<LayerConfig>, asked: Asked, denied: &mut One, parts: &Parts) -> Started {
    let respond = |rejected: &_| Started::Rejected(reject::by_limits(config, rejected, parts));
    now::deny_one(&config.limits, asked, now::taken_one(denied), respond)
}
