//! The door of checks by handlers, and of messages: their keys are known, and their answer is a value.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key};

use super::limited::Refusal;
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::{KeyError, admission};
use portcullis_engine::EventKind;
use portcullis_engine::engine::permits::Permits;
use portcullis_engine::{Admitted, Ask, Attempt, CallerPolicies, Now, Patience, StoreCall, now};

/// A check that is admitted.
pub(super) struct Checked {
    pub(super) basis: ChargeBasis,
    pub(super) permits: Option<Permits>,
}

/// A check whose answer is not there yet.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Checked, Refusal>> + Send>>;

/// Begins a check of the policies with these indexes, for a caller with these quotas. `Err` if the answer has to be awaited.
pub(super) fn begin(
    config: &Arc<LayerConfig>,
    callers: &CallerPolicies,
    checks: impl IntoIterator<Item = (usize, Result<Key, KeyError>, u64)>,
    max_wait: Option<Duration>,
) -> Result<Result<Checked, Refusal>, Pending> {
    let ask = match ask(config, callers, checks) {
        Ok(ask) => ask,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut call = None;
    if ask.is_decided_by_answer(&config.limits) {
        match now::decide(&config.limits, &ask) {
            Now::One(asked, ready) => {
                return Ok(Ok(at_once(config, ChargeBasis::Single(asked, ready), &ask)));
            }
            Now::All(mut call) => {
                return Ok(Ok(at_once(config, ChargeBasis::Decided(now::taken(&mut call)), &ask)));
            }
            Now::Rejected(rejected) => return Ok(Err(Refusal::Limits(rejected))),
            Now::Later(later) => call = later,
        }
    }
    Err(Box::pin(decide(Arc::clone(config), ask, call, max_wait)))
}

fn at_once(config: &LayerConfig, basis: ChargeBasis, ask: &Ask) -> Checked {
    config.emit_admitted(basis.decisions(), &[], ask.keys());
    Checked { basis, permits: None }
}

async fn decide(
    config: Arc<LayerConfig>,
    ask: Ask,
    call: Option<StoreCall>,
    max_wait: Option<Duration>,
) -> Result<Checked, Refusal> {
    let callers = ask.callers().clone();
    let mut attempt = Attempt::new(&config.limits, max_wait, Patience::default());
    attempt.check(ask, call).await.map_err(Refusal::Limits)?;
    let Admitted { charged, shadows, held, keys, .. } = attempt.admit().await.map_err(Refusal::Limits)?;
    let decisions = charged.as_ref().map(Outcome::decisions).unwrap_or_default();
    config.emit_admitted(decisions, &shadows, keys.as_deref());
    let permits = (!held.is_empty()).then(|| Permits::new(held, false));
    // Also if the store could not answer: what a handler has checked is checked again for each message.
    let basis = charged.map_or_else(|| not_asked(&config, &callers), ChargeBasis::Decided);
    Ok(Checked { basis, permits })
}

/// What a check is charged by that no policy counts.
fn not_asked(config: &LayerConfig, callers: &CallerPolicies) -> ChargeBasis {
    let at = SystemTime::now().into();
    let policies = (0..config.policies().len()).map(|index| callers.policy(&config.limits, index));
    ChargeBasis::Degraded(policies.map(|policy| Decision::not_asked(policy, at)).collect())
}

#[expect(clippy::result_large_err, reason = "moved no further than its caller")]
fn ask(
    config: &LayerConfig,
    callers: &CallerPolicies,
    checks: impl IntoIterator<Item = (usize, Result<Key, KeyError>, u64)>,
) -> Result<Ask, Refusal> {
    let mut ask = Ask::of_caller(&config.limits, callers).without_outcome();
    for (index, key, cost) in checks {
        let limit = &config.policies()[index];
        let policy = limit.policy.name();
        match key {
            Ok(key) => ask.add(&config.limits, index, key, cost),
            Err(_) if limit.is_off_without_key() => {}
            // A shadow policy never rejects.
            Err(error) if limit.is_shadow() => {
                ask.emit(&config.limits, EventKind::ShadowUnidentified { policy, error: &error });
            }
            Err(error) => {
                if error.is_client_fault() {
                    ask.emit(&config.limits, EventKind::IdentityMalformed { policy, error: &error });
                }
                admission::emit_without_key(config, &error, ask.keys());
                return Err(Refusal::NoKey(error));
            }
        }
    }
    Ok(ask)
}
