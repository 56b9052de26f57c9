//! From the answer of the store to a response.

use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, FailureMode, Policy, StoreError};

use super::{LayerConfig, OnStoreFailure};
use crate::KeyError;
use crate::answer::{Cause, Rejection};
use crate::event::EventKind;

/// Why a request passes: an outcome, or a failure of the store where all policies are open.
pub(crate) type Passed = Result<Outcome, StoreError>;

impl LayerConfig {
    /// Returns why a request passes, given the answer of the store.
    ///
    /// # Errors
    ///
    /// The response, if the request is rejected.
    #[expect(
        clippy::result_large_err,
        reason = "returned once per request, and moved no further than its caller"
    )]
    pub(crate) fn passed(
        &self,
        answer: Result<Outcome, StoreError>,
        on_failure: OnStoreFailure,
        parts: &Parts,
    ) -> Result<Passed, Response<Full<Bytes>>> {
        self.announce_answer(&answer);
        match answer {
            Ok(outcome) if outcome.is_allowed() => Ok(Ok(outcome)),
            Ok(outcome) => Err(self.reject(Cause::Limited(&outcome, on_failure.asked), parts)),
            // Open policies reject it as well, because an overload must not open a second budget.
            Err(error) if error.kind().is_overload() => Err(self.reject(Cause::Overloaded, parts)),
            Err(error) if on_failure.rejects => {
                self.announce_expiry(&error, on_failure);
                Err(self.reject(Cause::StoreFailed, parts))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The decisions about a request that passes because the store has failed.
    pub(crate) fn degraded(&self, on_failure: OnStoreFailure) -> Vec<Decision> {
        let at = SystemTime::now().into();
        on_failure.asked().map(|index| Decision::degraded(&self.policies[index].policy, at)).collect()
    }

    /// Announces whether the store has answered. For a remembered denial it was not called.
    pub(super) fn announce_answer(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(outcome) if outcome.is_remembered() => {}
            Ok(outcome) => self.announce_store(outcome.failure()),
            Err(error) => self.announce_store(Some(error)),
        }
    }

    /// Announces failures of the store, and the end of an outage. Overload is neither.
    pub(super) fn announce_store(&self, failure: Option<&StoreError>) {
        match failure {
            None => {
                if self.outage.end() {
                    self.announce(EventKind::StoreRecovered);
                }
            }
            Some(error) if error.kind().is_overload() => {
                self.announce(EventKind::StoreOverloaded { error });
            }
            Some(error) => {
                let is_new = self.outage.begin();
                self.announce(EventKind::StoreFailed { error, is_new });
            }
        }
    }

    /// Announces that a request is rejected that would have passed earlier in the outage.
    fn announce_expiry(&self, error: &StoreError, on_failure: OnStoreFailure) {
        let outlasts = |policy: &Policy| {
            let failure = policy.failure_mode();
            matches!(failure, FailureMode::OpenFor(_))
                && error.outage().is_some_and(|outage| !failure.is_open_after(outage))
        };
        let mut asked = on_failure.asked().map(|index| &self.policies[index].policy);
        if let Some(policy) = asked.find(|policy| outlasts(policy))
            && self.outage.outlast()
        {
            self.announce(EventKind::OpenForExpired { policy: policy.name() });
        }
    }

    /// The response to a request whose identity cannot be determined.
    pub(crate) fn reject_key(&self, error: &KeyError, parts: &Parts) -> Response<Full<Bytes>> {
        if !error.is_client_fault() {
            self.announce(EventKind::Misconfigured { error });
        }
        self.reject(Cause::NoKey(error), parts)
    }

    /// The response to a request whose look-up found no key or failed.
    pub(crate) fn reject_looked_up(&self, error: &KeyError, parts: &Parts) -> Response<Full<Bytes>> {
        let cause = if error.is_client_fault() { Cause::NoKey(error) } else { Cause::LookupFailed };
        self.reject(cause, parts)
    }

    /// The response to a request that would have to wait while too many requests wait.
    pub(crate) fn reject_overloaded(&self, parts: &Parts) -> Response<Full<Bytes>> {
        self.reject(Cause::Overloaded, parts)
    }

    /// The response to a request that has waited, if the inner service is then not ready.
    pub(crate) fn reject_not_ready(&self, parts: &Parts) -> Response<Full<Bytes>> {
        self.announce(EventKind::NotReady);
        self.reject(Cause::Overloaded, parts)
    }

    fn reject(&self, cause: Cause<'_>, parts: &Parts) -> Response<Full<Bytes>> {
        let rejection = Rejection::new(parts, cause);
        let (reason, decisions) = (rejection.reason(), rejection.decisions());
        self.announce(EventKind::Rejected { reason, decisions });
        self.answers.reject(&rejection)
    }
}
