//! The store of limits that are switched off.

use std::time::SystemTime;

use super::{Checks, Outcome, Receipt, Settlement, Store, StoreFuture};
use crate::{Decision, Key, Policy};

/// A store that admits everything and keeps nothing: for limits that are switched off, and to try out what a builder accepts.
///
/// ```
/// use portcullis::store::{Checks, NoStore, Store as _};
/// use portcullis::{Policy, Quota, Secret};
///
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let checks = Checks::one(Policy::gcra("all", Quota::per_day(1)), hasher.finish()?, 5);
/// let outcome = NoStore.check(checks).into_ready().expect("it never waits").expect("it never fails");
/// assert!(outcome.is_allowed());
/// # Ok::<(), portcullis::key::KeyWriteError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

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
