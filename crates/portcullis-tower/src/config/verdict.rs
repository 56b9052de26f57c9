//! From the answer of the store to a response.

use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, FailureMode, Policy, StoreError};

use super::{LayerConfig, LayerPolicy, OnStoreFailure};
use crate::KeyError;
use crate::answer::{Cause, Rejection};

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
        self.log_answer(&answer);
        match answer {
            Ok(outcome) if outcome.is_allowed() => Ok(Ok(outcome)),
            Ok(outcome) => Err(self.reject(Cause::Limited(&outcome), parts)),
            // Open policies reject it as well, because an overload must not open a second budget.
            Err(error) if error.kind().is_overload() => Err(self.reject(Cause::Overloaded, parts)),
            Err(error) if on_failure.rejects => {
                self.log_expiry(&error, on_failure);
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

    /// Logs whether the store has answered. For a remembered denial it was not called.
    pub(super) fn log_answer(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(outcome) if outcome.is_remembered() => {}
            Ok(outcome) => self.log_store(outcome.failure()),
            Err(error) => self.log_store(Some(error)),
        }
    }

    /// Logs transitions between a store that answers and one that fails. Overload is neither.
    pub(super) fn log_store(&self, failure: Option<&StoreError>) {
        match failure {
            None => self.log.store_answered(),
            Some(error) if error.kind().is_overload() => self.log.store_overloaded(error),
            Some(error) => self.log.store_failed(error, || ByPolicy(&self.policies)),
        }
    }

    /// Logs that a request is rejected that would have passed earlier in the outage.
    fn log_expiry(&self, error: &StoreError, on_failure: OnStoreFailure) {
        let outlasts = |policy: &Policy| {
            let failure = policy.failure_mode();
            matches!(failure, FailureMode::OpenFor(_))
                && error.outage().is_some_and(|outage| !failure.is_open_after(outage))
        };
        let mut asked = on_failure.asked().map(|index| &self.policies[index].policy);
        if let Some(policy) = asked.find(|policy| outlasts(policy)) {
            self.log.store_failed_for_long(policy.name());
        }
    }

    /// The response to a request whose identity cannot be determined.
    pub(crate) fn reject_key(&self, error: &KeyError, parts: &Parts) -> Response<Full<Bytes>> {
        if !error.is_client_fault() {
            self.log.misconfigured(error);
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
        self.log.not_ready();
        self.reject(Cause::Overloaded, parts)
    }

    fn reject(&self, cause: Cause<'_>, parts: &Parts) -> Response<Full<Bytes>> {
        self.answers.reject(&Rejection::new(parts, cause))
    }
}

/// Prints the failure mode of each policy.
struct ByPolicy<'a>(&'a [LayerPolicy]);

impl fmt::Display for ByPolicy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LayerPolicy { policy, is_shadow, .. }) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            let shadow = if *is_shadow { " (shadow)" } else { "" };
            write!(f, "{separator}{}: {}{shadow}", policy.name(), policy.failure_mode())?;
        }
        Ok(())
    }
}
