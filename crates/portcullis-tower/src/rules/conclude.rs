//! What becomes of a request.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::{Decision, Outcome, StoreError};

use super::{Otherwise, Rules, ShadowChecks, Watching};
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
                self.notices.store_answered();
                if !outcome.is_allowed() {
                    return self.refuse(Cause::Limited(&outcome), parts);
                }
                Standing::Decided(outcome)
            }
            Err(error) => {
                self.notices.store_failed(&error);
                if otherwise.closed {
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
