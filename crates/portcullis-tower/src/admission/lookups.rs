//! The look-ups of a request: of keys, and of quotas of callers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use tokio::time::Sleep;

use super::pending_lookup::{self, PendingLookup};
use super::plan;
use super::quota_lookups::{self, QuotaLookups};
use crate::KeyError;
use crate::config::{CallerQuotas, LayerConfig};
use portcullis_engine::Ask;
use portcullis_engine::PolicySet;

struct Lookups {
    keys: Vec<PendingLookup>,
    quotas: QuotaLookups,
    /// Made if one is not done at once.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Looks up keys and quotas. Returns the configuration with the quotas that were found, and what the request asks then.
///
/// # Errors
///
/// If a look-up fails that an enforced policy needs. The others are given up then.
pub(crate) async fn look_up(
    config: &Arc<LayerConfig>,
    awaited: PolicySet,
    parts: &Parts,
) -> (Arc<LayerConfig>, Result<Ask, KeyError>) {
    let keys = pending_lookup::start_all(config, parts);
    let mut lookups = Lookups { keys, quotas: quota_lookups::start(config, awaited, parts), deadline: None };
    let found = poll_fn(|cx| lookups.poll(config, cx)).await;
    let config = config.with_quotas(&lookups.found_quotas(config)).unwrap_or_else(|| Arc::clone(config));
    let ask = found.and_then(|()| plan::second(&config, parts, &lookups.keys, awaited));
    (config, ask)
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
        found.sort_unstable_by_key(|(index, _)| *index);
        found
    }
}
