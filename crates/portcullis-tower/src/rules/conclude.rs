//! What becomes of a request.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::{Decision, Outcome, Policy, StoreError, StoreFailure};

use super::{Otherwise, Rule, Rules, ShadowChecks, Watching};
use crate::KeyError;
use crate::answer::{Cause, Note, Rejection};
use crate::charge::Standing;

/// What becomes of a request.
pub(crate) enum Conclusion {
    Pass(Note),
    /// It passes as soon as the shadow policies have been heard.
    Watch(Note, Watching),
    Refuse(Response<Full<Bytes>>),
}

impl Rules {
    /// What becomes of a request, now that the store has answered or failed. A request that passes is told why.
    pub(crate) fn conclude(
        self: &Arc<Self>,
        answer: Result<Outcome, StoreError>,
        otherwise: Otherwise,
        shadow: ShadowChecks,
        parts: &mut Parts,
    ) -> Conclusion {
        let standing = match answer {
            Ok(outcome) => {
                self.note_store(outcome.failure());
                if !outcome.is_allowed() {
                    return self.refuse(Cause::Limited(&outcome), parts);
                }
                Standing::Decided(outcome)
            }
            Err(error) => {
                self.note_store(Some(&error));
                // Not even an open policy lets the request pass: pressure must not open a second budget.
                if error.kind().is_overload() {
                    return self.refuse(Cause::Overloaded, parts);
                }
                if otherwise.refuses {
                    self.note_expiry(&error, otherwise);
                    return self.refuse(Cause::StoreFailed, parts);
                }
                let at = SystemTime::now().into();
                let degraded = |index: usize| Decision::degraded(&self.list[index].policy, at);
                Standing::Degraded(otherwise.asked().map(degraded).collect())
            }
        };
        let charge = self.leave_charge(standing, &mut parts.extensions);
        self.watch(Note { charge: Some(charge), shadow: None }, shadow, parts)
    }

    /// Has the shadow policies look at a request that passes.
    pub(crate) fn watch(&self, mut note: Note, shadow: ShadowChecks, parts: &mut Parts) -> Conclusion {
        if shadow.is_empty() {
            return Conclusion::Pass(note);
        }
        let watching = self.ask_shadows(shadow);
        if !watching.is_over() {
            return Conclusion::Watch(note, watching);
        }
        note.shadow = self.report(watching, &mut parts.extensions);
        Conclusion::Pass(note)
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
    fn note_expiry(&self, error: &StoreError, otherwise: Otherwise) {
        let outlasts = |policy: &Policy| {
            let failure = policy.store_failure();
            matches!(failure, StoreFailure::OpenFor(_))
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
        self.answers.refuse(&Rejection::new(parts, Cause::NoKey(error)))
    }

    fn refuse(&self, cause: Cause<'_>, parts: &Parts) -> Conclusion {
        Conclusion::Refuse(self.answers.refuse(&Rejection::new(parts, cause)))
    }
}

/// What each policy does while the store fails.
struct ByPolicy<'a>(&'a [Rule]);

impl fmt::Display for ByPolicy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Rule { policy, is_shadow, .. }) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            let shadow = if *is_shadow { " (shadow)" } else { "" };
            write!(f, "{separator}{}: {}{shadow}", policy.name(), policy.store_failure())?;
        }
        Ok(())
    }
}
