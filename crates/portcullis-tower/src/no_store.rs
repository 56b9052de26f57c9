//! The store of limits that are switched off.

use std::time::SystemTime;

use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement};

/// Allows everything and keeps nothing, for the handlers that ask the store themselves.
#[derive(Debug)]
pub(crate) struct NoStore;

impl Store for NoStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        StoreFuture::ready(Ok(Outcome::unmetered(checks, SystemTime::now().into())))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(Ok(Decision::not_asked(receipt.policy(), SystemTime::now().into())))
    }

    fn settle(&self, receipt: Receipt, _: u64) -> StoreFuture<Settlement> {
        let decision = Decision::not_asked(receipt.policy(), SystemTime::now().into());
        StoreFuture::ready(Ok(Settlement { decision, uncharged: 0, receipt: Some(receipt) }))
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }
}
