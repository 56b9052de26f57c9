//! Checks that the charge of a stream makes for each message.

use std::sync::Arc;

use http::HeaderMap;
use portcullis_core::{Decision, PolicyName};

use super::decide::{self, Checked};
use super::future::Given;
use super::{Limited, Meter};
use crate::Charge;
use crate::config::LayerConfig;
use portcullis_engine::{CallerPolicies, CallerQuotas};

impl Charge {
    /// Checks `units` more, for a message of a stream: charges them under all policies that the charge was checked under, to
    /// the same keys, or rejects the message and charges nothing.
    ///
    /// Like [`charge_more`](Self::charge_more), but the answer is that of a layer. A denial is an error, which says how to
    /// answer: [`Limited`] is a response, a gRPC status, or a close code of a WebSocket. The failure modes of the policies
    /// apply, a queue delays the message, and the same events are emitted as for a request. The policies are checked as they
    /// are now, in the modes of the admission. A policy that let the
    /// request pass because the store could not answer is checked for each message, so that a stream that was opened
    /// during an outage is limited afterwards. One case is left out: if a layer has admitted the request while its store could not answer
    /// at all, and all policies were open, then nothing is checked; open such a stream with a [`Check`](crate::Check) of its
    /// own.
    ///
    /// A charge that is [narrowed](Self::for_policy) checks one policy. The charge works as long as the stream lasts, also after
    /// an upgrade (101). It takes a bounded amount of memory, as for `charge_more`; what messages were charged is refunded and
    /// settled with the rest. Once the charge is refunded or settled, messages are still checked and charged, for good.
    ///
    /// ```
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = testing::limiter(&ManualClock::default());
    /// let messages = Policy::gcra("messages", Quota::per_minute(1).burst(2));
    /// // Opening the stream costs nothing; each message costs one unit.
    /// let charge = limiter.check(&messages).by(|key| key.part("user", b"ada")).cost(0).await?;
    /// assert_eq!(charge.check(1).await?.remaining(), 1);
    /// assert_eq!(charge.check(1).await?.remaining(), 0);
    /// let limited = charge.check(1).await.expect_err("a burst of two");
    /// assert_eq!(limited.close_code(), 1008);
    /// assert_eq!(limited.close_reason(), "rate limit exceeded: retry after 60 s");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the message is rejected.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may stay charged, and the message should count as not sent. A slot in a queue is given
    /// up.
    ///
    /// # Panics
    ///
    /// If the message has to wait for a slot in a queue or a window and there is no tokio runtime with a timer.
    pub async fn check(&self, units: u64) -> Result<Decision, Limited> {
        let Some((config, callers, checks)) = message(self, units) else { return Ok(self.decision()) };
        let checked = match decide::begin(&config, &callers, checks, None) {
            Ok(checked) => checked,
            Err(pending) => pending.await,
        };
        match checked {
            Ok(Checked { basis, .. }) => {
                let decision = basis.decision().clone();
                if let Some(outcome) = basis.outcome(&config.limits) {
                    self.record(outcome);
                }
                Ok(decision)
            }
            Err(cause) => Err(Limited::new(Arc::clone(&config.responses), cause, HeaderMap::new())),
        }
    }

    /// Counts the messages of a stream in this process, and charges `batch` units at a time: one call of the store for `batch`
    /// messages of one unit. With 0 or 1, each message is charged by itself.
    ///
    /// See [`Meter`] for what it charges when.
    pub fn meter(&self, batch: u64) -> Meter {
        Meter::new(self.clone(), batch)
    }
}

/// The check of a message. `None` if the charge has no keys.
fn message(charge: &Charge, units: u64) -> Option<(Arc<LayerConfig>, CallerPolicies, Given)> {
    let config = charge.config().for_later_checks();
    let index_of =
        |policy: &PolicyName| config.policies().iter().position(|limit| limit.policy.name() == policy);
    let (mut quotas, mut checks) = (CallerQuotas::new(), Given::new());
    for check in charge.checks() {
        let Some(index) = index_of(check.policy.name()) else { continue };
        quotas.extend(check.policy.caller_quota().map(|quota| (index, quota)));
        checks.push((index, Ok(check.key), units));
    }
    let callers = CallerPolicies::of(&config.limits, &quotas);
    (!checks.is_empty()).then_some((config, callers, checks))
}
