//! Runs the look-ups of a request between its two checks, within a deadline.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::store::Outcome;
use tokio::time::Sleep;

use super::admit::{self, Delay};
use super::pending_lookup::PendingLookup;
use super::plan::Plan;
use super::quota_lookups::QuotaLookups;
use super::refunds::{Keep, Refunds};
use super::second_check::{self, FirstResult};
use super::shadow_checks::ShadowChecks;
use super::{State, Step, pending_lookup, permits, plan, quota_lookups, verdict};
use crate::KeyError;
use crate::by_outcome;
use crate::config::{CallerQuotas, LayerConfig};
use crate::event::{EventKeys, FoundKeys};
use crate::policy::PolicySet;

/// Waits for all look-ups of a request at once.
pub(super) struct LookingUp {
    lookups: Vec<PendingLookup>,
    quotas: QuotaLookups,
    /// The policies that were not checked yet, because their quotas are looked up.
    awaited: PolicySet,
    /// Created when a look-up is not ready at once.
    deadline: Option<Pin<Box<Sleep>>>,
    shadow: ShadowChecks,
    first: Provisional,
}

/// The charges of a request until the look-ups are done. If the client disconnects meanwhile, the charges of policies that count
/// rejections stay, because look-ups would cost nothing otherwise. The others are refunded, because clients could use them up
/// without being identified otherwise.
struct Provisional {
    config: Arc<LayerConfig>,
    result: FirstResult,
}

pub(super) fn start(
    config: &Arc<LayerConfig>,
    first: Option<Outcome>,
    shadow: ShadowChecks,
    awaited: PolicySet,
    parts: &mut Parts,
) -> Step {
    let end = first.as_ref().and_then(|first| admit::delay_end(first.decision()));
    let key = first.as_ref().and_then(|first| first.checks().narrowest_key());
    let key = key.or_else(|| quota_lookups::own_key(config, awaited, parts));
    let permit = permits::acquire(config, key, || EventKeys::of_request(&parts.extensions));
    if permit.is_none() {
        if pending_lookup::any_enforced(config, awaited, parts) {
            let response = verdict::reject_overloaded(config, parts);
            return Step::refunded(config, first.as_ref(), end, Keep::Nothing, response);
        }
        // A shadow policy never rejects: those that need a look-up do not count the request.
        let first = FirstResult { outcome: first, delay: Delay { end, permit: None } };
        return second_check::start(config, Plan { shadow, ..Plan::default() }, first, parts);
    }
    // Look-ups would cost nothing otherwise, as for the provisional charges.
    if config.by_outcome.looks_first() {
        by_outcome::set_owed(&parts.extensions, true);
    }
    let result = FirstResult { outcome: first, delay: Delay { end, permit } };
    let first = Provisional { config: Arc::clone(config), result };
    let lookups = pending_lookup::start_all(config, parts);
    let quotas = quota_lookups::start(config, awaited, parts);
    Step::wait(
        config,
        State::LookingUp(Box::new(LookingUp { lookups, quotas, awaited, deadline: None, shadow, first })),
    )
}

impl LookingUp {
    pub(super) fn poll(
        &mut self,
        config: &mut Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let found = ready!(self.poll_all(config, cx));
        // For what follows the verdict as well.
        if let Some(with_quotas) = config.with_quotas(&self.found_quotas(config)) {
            *config = with_quotas;
        }
        let config = &*config;
        let awaited = self.awaited;
        let plan = found
            .and_then(|()| plan::second(config, parts, &self.lookups, awaited, mem::take(&mut self.shadow)));
        let first = mem::take(&mut self.first.result);
        Poll::Ready(match plan {
            Ok(mut plan) => {
                FoundKeys::add_to(plan.keys.take(), &mut parts.extensions);
                second_check::start(config, plan, first, parts)
            }
            Err(error) => {
                let response = verdict::reject_looked_up(config, &error, parts);
                Step::refunded(
                    config,
                    first.outcome.as_ref(),
                    first.delay.end,
                    Keep::CountedRejections,
                    response,
                )
            }
        })
    }

    fn poll_all(&mut self, config: &LayerConfig, cx: &mut Context<'_>) -> Poll<Result<(), KeyError>> {
        let mut are_over = self.quotas.poll(config, cx);
        for lookup in &mut self.lookups {
            match lookup.poll(config, cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
                Poll::Pending => are_over = false,
            }
        }
        if are_over {
            return Poll::Ready(Ok(()));
        }
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(config.lookup_deadline)));
        ready!(deadline.as_mut().poll(cx));
        self.quotas.expire(config);
        for lookup in &mut self.lookups {
            lookup.expire(config)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The quotas of the caller, in the order of the policies.
    fn found_quotas(&self, config: &LayerConfig) -> CallerQuotas {
        let mut found = self.quotas.found();
        for lookup in &self.lookups {
            lookup.add_quotas(config, &mut found);
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        found
    }
}

impl Drop for Provisional {
    fn drop(&mut self) {
        let FirstResult { outcome, delay } = mem::take(&mut self.result);
        drop(Refunds::start(&self.config, outcome.as_ref(), delay.end, Keep::CountedRejections));
    }
}
