//! What becomes of a request.

use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::{Decision, FailureMode, Outcome, Policy, StoreError};

use super::{LayerConfig, LayerPolicy, OnStoreFailure};
use crate::KeyError;
use crate::answer::{Cause, Rejection};

/// What lets a request pass: a decision, or the failure of the store where all policies are open then.
pub(crate) type Passed = Result<Outcome, StoreError>;

impl LayerConfig {
    /// What the store's answer, or its failure, means for a request.
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
        otherwise: OnStoreFailure,
        parts: &Parts,
    ) -> Result<Passed, Response<Full<Bytes>>> {
        self.note_answer(&answer);
        match answer {
            Ok(outcome) if outcome.is_allowed() => Ok(Ok(outcome)),
            Ok(outcome) => Err(self.refuse(Cause::Limited(&outcome), parts)),
            // Not even an open policy lets the request pass: pressure must not open a second budget.
            Err(error) if error.kind().is_overload() => Err(self.refuse(Cause::Overloaded, parts)),
            Err(error) if otherwise.refuses => {
                self.note_expiry(&error, otherwise);
                Err(self.refuse(Cause::StoreFailed, parts))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The decisions about a request that passes because the store has failed.
    pub(crate) fn degraded(&self, otherwise: OnStoreFailure) -> Vec<Decision> {
        let at = SystemTime::now().into();
        otherwise.asked().map(|index| Decision::degraded(&self.list[index].policy, at)).collect()
    }

    /// Notes whether the store has answered. For a remembered denial it was not asked.
    pub(super) fn note_answer(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(outcome) if outcome.is_remembered() => {}
            Ok(outcome) => self.note_store(outcome.failure()),
            Err(error) => self.note_store(Some(error)),
        }
    }

    /// Logs changes between a store that answers and one that does not. Overload is neither.
    pub(super) fn note_store(&self, failure: Option<&StoreError>) {
        match failure {
            None => self.notices.store_answered(),
            Some(error) if error.kind().is_overload() => self.notices.store_overloaded(error),
            Some(error) => self.notices.store_failed(error, || ByPolicy(&self.list)),
        }
    }

    /// Hears that a request is refused that would have passed earlier in the outage.
    fn note_expiry(&self, error: &StoreError, otherwise: OnStoreFailure) {
        let outlasts = |policy: &Policy| {
            let failure = policy.failure_mode();
            matches!(failure, FailureMode::OpenFor(_))
                && error.outage().is_some_and(|outage| !failure.is_open_after(outage))
        };
        let mut asked = otherwise.asked().map(|index| &self.list[index].policy);
        if let Some(policy) = asked.find(|policy| outlasts(policy)) {
            self.notices.store_failed_for_long(policy.name());
        }
    }

    /// The answer to a request whose caller cannot be told.
    pub(crate) fn refuse_key(&self, error: &KeyError, parts: &Parts) -> Response<Full<Bytes>> {
        if !error.is_client_fault() {
            self.notices.misconfigured(error);
        }
        self.refuse(Cause::NoKey(error), parts)
    }

    /// The answer to a request whose caller was looked up in vain.
    pub(crate) fn refuse_looked_up(&self, error: &KeyError, parts: &Parts) -> Response<Full<Bytes>> {
        let cause = if error.is_client_fault() { Cause::NoKey(error) } else { Cause::LookupFailed };
        self.refuse(cause, parts)
    }

    /// The answer to a request that would have to wait where too many do.
    pub(crate) fn refuse_overloaded(&self, parts: &Parts) -> Response<Full<Bytes>> {
        self.refuse(Cause::Overloaded, parts)
    }

    /// The answer to a request that had to wait, and then finds the inner service not ready.
    pub(crate) fn refuse_not_ready(&self, parts: &Parts) -> Response<Full<Bytes>> {
        self.notices.not_ready();
        self.refuse(Cause::Overloaded, parts)
    }

    fn refuse(&self, cause: Cause<'_>, parts: &Parts) -> Response<Full<Bytes>> {
        self.answers.refuse(&Rejection::new(parts, cause))
    }
}

/// What each policy does while the store fails.
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
