//! Checks that are made each by itself, at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use portcullis_core::StoreError;
use portcullis_core::store::{Checks, Outcome};

use super::patience::Patience;
use crate::charge::Asked;
use crate::decide::call::StoreCall;
use crate::engine::{CallerPolicies, Limits};

/// Makes the checks, of a caller with these quotas. `answered` takes each answer when it is there; what it returns is in the order of the policies.
///
/// # Cancel safety
///
/// What has answered was taken.
pub(super) async fn check<T>(
    limits: &Arc<Limits>,
    callers: &CallerPolicies,
    asked: &[Asked],
    patience: &Patience,
    mut answered: impl FnMut(Asked, Result<Outcome, StoreError>) -> T,
) -> Vec<T> {
    let call = |&asked: &Asked| {
        let checks = Checks::one(callers.policy(limits, asked.index).clone(), asked.key, asked.cost);
        (asked, StoreCall::new(limits, limits.check(checks), false))
    };
    let mut calls: Vec<(Asked, StoreCall)> = asked.iter().map(call).collect();
    if !calls.iter().all(|(_, call)| call.is_ready()) {
        patience.resume().await;
    }
    let mut taken = Vec::with_capacity(calls.len());
    poll_fn(|cx| {
        calls.retain_mut(|(asked, call)| match Pin::new(call).poll(cx) {
            Poll::Ready(answer) => {
                taken.push((asked.index, answered(*asked, answer)));
                false
            }
            Poll::Pending => true,
        });
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    taken.sort_by_key(|(index, _)| *index);
    taken.into_iter().map(|(_, taken)| taken).collect()
}
