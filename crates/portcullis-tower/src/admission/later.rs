//! The way of a request that has to be awaited, as one future.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::request::Parts;

use super::plan::Plan;
use super::plan::lookups;
use super::reject;
use super::reject::RejectedRequest;
use crate::config::LayerConfig;
use portcullis_engine::{Admitted, Attempt, Patience, StoreCall};

/// A request that is not decided yet.
///
/// # Cancel safety
///
/// As for [`Attempt`].
pub(crate) struct Waiting {
    decision: Pin<Box<dyn Future<Output = Decided> + Send>>,
    patience: Patience,
}

/// A request that has been decided, with its configuration.
pub(crate) struct Decided {
    pub(crate) config: Arc<LayerConfig>,
    pub(crate) parts: Parts,
    pub(crate) result: Result<Admitted, RejectedRequest>,
}

impl Waiting {
    /// With the call of the store for the checks of the plan, if it was called.
    pub(crate) fn new(config: &Arc<LayerConfig>, plan: Box<(Plan, Option<StoreCall>)>, parts: Parts) -> Self {
        let (config, patience) = (Arc::clone(config), Patience::probing());
        Self { decision: Box::pin(decide(config, plan, parts, patience.clone())), patience }
    }

    /// The decision, if nothing has to be waited for: where the store answers at once. Nothing else is polled.
    pub(crate) fn probe(&mut self) -> Option<Decided> {
        let decided = self.decision.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.patience.probed();
        match decided {
            Poll::Ready(decided) => Some(decided),
            Poll::Pending => None,
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Decided> {
        self.decision.as_mut().poll(cx)
    }

    /// Whether the inner service may be kept ready: a call of the store ends soon after its deadline, and other waits take longer.
    pub(crate) fn keeps_readiness(&self) -> bool {
        !self.patience.is_long()
    }
}

pub(crate) async fn decide(
    config: Arc<LayerConfig>,
    plan: Box<(Plan, Option<StoreCall>)>,
    parts: Parts,
    patience: Patience,
) -> Decided {
    let (Plan { ask, looks_up, awaited, rejection }, call) = *plan;
    let mut attempt = Attempt::new(&config.limits, None, patience);
    let mut checked = attempt.check(ask, call).await;
    if let (Ok(()), Some(rejection)) = (&checked, rejection) {
        attempt.keep();
        let rejected = reject::planned(&config, &rejection, &parts, attempt.keys());
        return Decided { config, parts, result: Err(rejected) };
    }
    if checked.is_ok() && looks_up {
        checked = match lookups::ask(&mut attempt, &config, awaited, &parts).await {
            Ok(Ok(Some(ask))) => attempt.check(ask, None).await,
            Ok(found) => found.map(drop),
            Err(error) => {
                let rejected = lookups::failed(&mut attempt, &config, error, &parts).await;
                return Decided { config, parts, result: Err(rejected) };
            }
        };
    }
    let result = match checked {
        Ok(()) => attempt.admit().await,
        Err(rejected) => Err(rejected),
    };
    let result = result.map_err(|rejected| reject::by_limits(&config, &rejected, &parts));
    Decided { config, parts, result }
}
