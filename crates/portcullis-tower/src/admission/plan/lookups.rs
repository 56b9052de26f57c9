//! The look-ups of a request: of keys, and of quotas of callers.

mod pending_lookup;
pub(super) mod quotas;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use tokio::time::Sleep;

pub(super) use pending_lookup::PendingLookup;
use quotas::QuotaLookups;

use super::PlannedRejection;
use crate::KeyError;
use crate::admission::reject::{self, RejectedRequest};
use crate::config::LayerConfig;
use portcullis_engine::{Ask, Attempt, CallerPolicies, CallerQuotas, PolicySet, Rejected};

struct Lookups {
    keys: Vec<PendingLookup>,
    quotas: QuotaLookups,
    /// Made if one is not done at once.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Looks up what a request needs that was let pass so far. Returns what it asks then; `None` if nothing that counts it has to be looked up, or why it cannot wait.
///
/// # Errors
///
/// If a look-up fails that an enforced policy needs. What was charged is not refunded yet.
pub(crate) async fn ask(
    attempt: &mut Attempt,
    config: &LayerConfig,
    awaited: PolicySet,
    parts: &Parts,
) -> Result<Result<Option<Ask>, Rejected>, KeyError> {
    if attempt.look_up(|| quotas::own_key(config, awaited, parts)).await {
        let found = look_up(config, attempt.callers().clone(), awaited, parts).await?;
        attempt.looked_up();
        return Ok(Ok(Some(found)));
    }
    // Otherwise only policies that are tried out need the look-up: they do not count the request.
    let is_needed = pending_lookup::any_enforced(config, awaited, parts);
    Ok(if is_needed { Err(attempt.reject_overloaded().await) } else { Ok(None) })
}

/// Rejects a request whose look-up has failed, and refunds it.
pub(crate) async fn failed(
    attempt: &mut Attempt,
    config: &LayerConfig,
    error: KeyError,
    parts: &Parts,
) -> RejectedRequest {
    let rejected = reject::planned(config, &PlannedRejection::LookUp(error), parts, attempt.keys());
    attempt.refund_looked_up().await;
    rejected
}

/// Looks up keys and quotas. `callers` are those that are known. Returns what the request asks then.
///
/// # Errors
///
/// If a look-up fails that an enforced policy needs. The others are given up then.
async fn look_up(
    config: &LayerConfig,
    callers: CallerPolicies,
    awaited: PolicySet,
    parts: &Parts,
) -> Result<Ask, KeyError> {
    let keys = pending_lookup::start_all(config, parts);
    let mut lookups = Lookups { keys, quotas: quotas::start(config, awaited, parts), deadline: None };
    let found = poll_fn(|cx| lookups.poll(config, cx)).await;
    let callers = callers.and(&config.limits, &lookups.found_quotas(config));
    found.and_then(|()| super::second(config, &callers, parts, &lookups.keys, awaited))
}

impl Lookups {
    fn poll(&mut self, config: &LayerConfig, cx: &mut Context<'_>) -> Poll<Result<(), KeyError>> {
        let mut are_over = self.quotas.poll(config, cx);
        for lookup in &mut self.keys {
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
        Poll::Ready(self.keys.iter_mut().try_for_each(|lookup| lookup.expire(config)))
    }

    /// The quotas that were found, by the indexes of the policies.
    fn found_quotas(&self, config: &LayerConfig) -> CallerQuotas {
        let mut found = self.quotas.found();
        for lookup in &self.keys {
            lookup.add_quotas(config, &mut found);
        }
        found
    }
}
