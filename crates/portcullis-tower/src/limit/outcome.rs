//! Options of a policy that is charged by the outcome of the response.

use std::sync::Arc;

use super::Limit;
use super::response_outcome::OutcomeRule;
use crate::ResponseOutcome;

impl Limit {
    /// Charges the policy only for requests with certain responses, such as failed log-ins: those for which
    /// `charge` returns `true`.
    ///
    /// The [`cost`](Self::cost) is charged before the inner service is called, as without this option, and refunded unless `charge`
    /// returns `true`. So of fifty guesses that are sent at the same time under a limit of five, five reach the service. A policy
    /// that also has to let many valid requests run at the same time can [charge afterwards](Self::charge_after).
    ///
    /// - In HTTP the response is judged by its head, and is held back until the store has answered the refund, for at most the
    ///   deadline of the store. Its headers show the budget after the refund. Whether a client reads the body does not matter, so a
    ///   response to `HEAD`, a 304 and a 101 are judged like all others.
    /// - A gRPC response is judged by the status in its trailers, when its body ends, or in its headers if it has no body. In the
    ///   former case the refund comes after the headers, which show the budget before it. Trailers that another layer has encoded
    ///   into the body cannot be seen: with gRPC-Web, this layer belongs inside of the translation.
    ///
    /// A request without an outcome stays charged, unless the policy [refunds](Self::refund_unanswered) it: its client has
    /// disconnected before the response, the inner service has failed or panicked, or a gRPC response ends or is dropped without a
    /// status. It stays charged as well if `charge` panics. A refund whose result is unknown is not repeated. A refund that the
    /// store does not answer before the client disconnects continues in a task, as for
    /// [`ResponseFuture`](crate::ResponseFuture#cancel-safety).
    ///
    /// Units that a handler charges in addition, by [`Charge::charge_more`](crate::Charge::charge_more), stay charged. A correction
    /// by outcome settles the charge under this policy. If the handler has settled or refunded it before, the outcome changes
    /// nothing. A [reservation](Self::reserve) is settled at its end only if the outcome has not changed the charge. Each layer
    /// corrects only its own charges. A request that this layer rejects is not judged, and its charges are those [of any
    /// rejection](Self::count_rejections). A [shadow](Self::shadow) policy is refunded in the same way. A leaky bucket frees only
    /// the last slot of its queue.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::charge::ResponseOutcome;
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let failures = Policy::fixed_window("failed-log-ins", Quota::per_day(2));
    /// let failures = failures.by(Global).charge_when(|outcome: &ResponseOutcome| outcome.status() == 401);
    /// let layer = Limiter::memory().layer(failures);
    /// let service = layer.layer(service_fn(async |password: Request<String>| {
    ///     let status = if password.body() == "correct horse" { 200 } else { 401 };
    ///     Response::builder().status(status).body(())
    /// }));
    /// for (password, status, remaining) in [
    ///     ("correct horse", 200, "2"),
    ///     ("guess", 401, "1"),
    ///     ("correct horse", 200, "1"),
    ///     ("guess", 401, "0"),
    ///     ("guess", 429, "0"),
    /// ] {
    ///     let response = service.clone().oneshot(Request::new(password.to_owned())).await?;
    ///     assert_eq!(response.status(), status);
    ///     assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn charge_when<F>(self, charge: F) -> Self
    where
        F: Fn(&ResponseOutcome<'_>) -> bool + Send + Sync + 'static,
    {
        self.with_outcome(|rule| rule.charge_when = Some(Arc::new(charge)))
    }

    /// Checks the policy without a charge, and charges it after the response, if
    /// [`charge_when`](Self::charge_when) says so, or always without one.
    ///
    /// So valid requests of one client, such as twenty that renew a session at the same time, do not reject each other. A request
    /// is rejected if no unit remains. One that is to be charged is charged whether it fits or not, up to the debt that the policy
    /// allows. The response is judged, and a request without an outcome is charged, as described for
    /// [`charge_when`](Self::charge_when); the units are then charged in a task if the store does not answer at once, or not at all
    /// outside of a tokio runtime. A policy by address charges requests that end during [look-ups](Self::by_async), or are rejected
    /// because of them, if it [counts rejections](Self::count_rejections). A shadow policy does not charge afterwards: it holds the units
    /// during the request.
    ///
    /// Guesses that are sent at the same time would all find a unit left. So at most as many requests per key are unsettled at the
    /// same time in this process as the policy has units, or the [caller's own quota](Self::quota)
    /// ([`charge_after_at_most`](Self::charge_after_at_most) sets another number, for all callers). A client thus has at most its
    /// limit and this number of failed requests, less one. In several processes, each has this number.
    /// More requests are rejected with 429 ([`Reason::Unsettled`](crate::Reason::Unsettled)), without `Retry-After` and figures,
    /// since the wait is unknown. A gRPC request is unsettled until its body ends. A key has at most 1 024 unsettled requests, and all keys of a limiter have 16 384: beyond them, a
    /// request is rejected as one beyond the number for its key.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let renewals = Policy::fixed_window("renewals", Quota::per_day(2)).by(Global);
    /// let renewals = renewals.charge_when(|outcome| outcome.status().is_client_error());
    /// let layer = Limiter::memory().layer(renewals.charge_after_at_most(20));
    /// let mut service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// let mut responses = Vec::new();
    /// for _ in 0..20 {
    ///     responses.push(service.ready().await?.call(Request::new(String::new())));
    /// }
    /// let one_more = service.ready().await?.call(Request::new(String::new()));
    /// assert_eq!(one_more.await?.status(), 429);
    /// for response in responses {
    ///     assert_eq!(response.await?.status(), 200);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn charge_after(self) -> Self {
        self.with_outcome(|rule| rule.charges_after = true)
    }

    /// Like [`charge_after`](Self::charge_after), with this number of unsettled requests per key at the same time in this process, at
    /// most 1 024: for a limit that is much larger than the attempts that one client makes at a time. With 0, every request is rejected.
    pub fn charge_after_at_most(self, requests: usize) -> Self {
        self.with_outcome(|rule| {
            rule.charges_after = true;
            rule.max_unsettled = Some(requests);
        })
    }

    /// Refunds requests without an outcome under the policy, or does not charge them if it
    /// [charges afterwards](Self::charge_after). By default they are charged, as described for [`charge_when`](Self::charge_when).
    ///
    /// A client that disconnects early is then not charged although its request may have run, so this is not for limits on
    /// guesses.
    pub fn refund_unanswered(self) -> Self {
        self.with_outcome(|rule| rule.refunds_unanswered = true)
    }

    fn with_outcome(mut self, change: impl FnOnce(&mut OutcomeRule)) -> Self {
        change(self.outcome.get_or_insert_default());
        self
    }
}
