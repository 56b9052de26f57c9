//! Corrections in progress: refunds of charges that an outcome lifts, and charges of requests that have looked first.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use portcullis_core::Receipt;

use crate::Charge;
use crate::charge::OutcomeCorrection;
use crate::config::LayerConfig;
use portcullis_engine::engine::keyed_limit::UnsettledPermit;
use portcullis_engine::report;

/// The corrections of one request, one call of the store each. Those that have no answer when this is dropped continue in a task.
/// None is repeated.
pub(crate) struct Corrections {
    config: Arc<LayerConfig>,
    pending: Vec<Correction>,
}

struct Correction {
    call: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether the request is uncharged until the store answers.
    is_charge: bool,
}

impl Corrections {
    pub(super) fn new(config: &Arc<LayerConfig>) -> Self {
        Self { config: Arc::clone(config), pending: Vec::new() }
    }

    /// Corrects what a charge has under the policy at `index` of it. The permit is held until the store answers.
    pub(super) fn correct(
        &mut self,
        charge: &Charge,
        index: usize,
        by: OutcomeCorrection,
        permit: Option<UnsettledPermit>,
    ) {
        let (config, charge) = (Arc::clone(&self.config), charge.clone());
        let is_charge = matches!(by, OutcomeCorrection::Charge(_));
        self.push(is_charge, async move {
            if let Err(error) = charge.correct(index, by).await {
                config.limits.emit_store_state(Some(&error));
            }
            drop(permit);
        });
    }

    /// Refunds a charge that no handler has.
    pub(super) fn refund(&mut self, receipt: Receipt) {
        let config = Arc::clone(&self.config);
        self.push(false, async move {
            let (key, units) = (receipt.key(), receipt.cost());
            report::refunded(&config.limits, key, units, &config.limits.refund(receipt).await);
        });
    }

    fn push(&mut self, is_charge: bool, call: impl Future<Output = ()> + Send + 'static) {
        self.pending.push(Correction { call: Box::pin(call), is_charge });
    }

    /// Calls the store. Afterwards only those corrections are pending that it does not answer at once.
    pub(super) fn begin(&mut self) {
        let _ = self.poll(&mut Context::from_waker(Waker::noop()));
    }

    pub(crate) fn are_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Polls all corrections concurrently.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.pending.retain_mut(|correction| correction.call.as_mut().poll(cx).is_pending());
        if self.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Corrections {
    fn drop(&mut self) {
        let (charges, refunds): (Vec<_>, Vec<_>) =
            mem::take(&mut self.pending).into_iter().partition(|correction| correction.is_charge);
        if !charges.is_empty() {
            self.config.limits.detach_charges(run(charges));
        }
        if !refunds.is_empty() {
            self.config.limits.detach(run(refunds));
        }
    }
}

async fn run(corrections: Vec<Correction>) {
    for correction in corrections {
        correction.call.await;
    }
}
