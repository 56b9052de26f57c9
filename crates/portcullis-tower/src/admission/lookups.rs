//! Look-ups, after the first decision and before the second.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::Outcome;
use tokio::time::Sleep;

use super::passing::{self, Wait};
use super::refunds::{Keep, Refunds};
use super::second::{self, Charged};
use super::{State, Step};
use crate::KeyError;
use crate::rules::{LayerConfig, PendingLookup, Plan, ShadowChecks};

/// Waits for all look-ups of a request at once.
pub(super) struct LookingUp {
    lookups: Vec<PendingLookup>,
    /// Made when the first look-up is not ready at once.
    deadline: Option<Pin<Box<Sleep>>>,
    shadow: ShadowChecks,
    first: Provisional,
}

/// What a request is charged until the look-ups are done. If its caller leaves meanwhile, the charges of policies that count
/// rejections stay, or look-ups could be started for nothing; the others are refunded, or anybody could use them up without
/// ever being identified.
struct Provisional {
    rules: Arc<LayerConfig>,
    charged: Charged,
}

pub(super) fn start(
    rules: &Arc<LayerConfig>,
    first: Option<Outcome>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let until = first.as_ref().and_then(passing::until);
    let key = first.as_ref().and_then(|first| first.checks().narrowest_key());
    let permit = rules.let_wait(key);
    if permit.is_none() {
        if rules.needs_look_ups() {
            let response = rules.refuse_overloaded(parts);
            return Step::refunded(rules, first.as_ref(), until, Keep::Nothing, response);
        }
        // A shadow policy never rejects: those that need a look-up do not count the request.
        let first = Charged { outcome: first, wait: Wait { until, permit: None } };
        return second::ask(rules, Plan { shadow, ..Plan::default() }, first, parts);
    }
    let charged = Charged { outcome: first, wait: Wait { until, permit } };
    let first = Provisional { rules: Arc::clone(rules), charged };
    let lookups = rules.look_up(parts);
    Step::wait(rules, State::LookingUp(Box::new(LookingUp { lookups, deadline: None, shadow, first })))
}

impl LookingUp {
    pub(super) fn poll(
        &mut self,
        rules: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let found = ready!(self.poll_all(rules, cx));
        let question =
            found.and_then(|()| rules.second_question(parts, &self.lookups, mem::take(&mut self.shadow)));
        let charged = mem::take(&mut self.first.charged);
        Poll::Ready(match question {
            Ok(question) => second::ask(rules, question, charged, parts),
            Err(error) => {
                let response = rules.refuse_looked_up(&error, parts);
                Step::refunded(
                    rules,
                    charged.outcome.as_ref(),
                    charged.wait.until,
                    Keep::CountedRejections,
                    response,
                )
            }
        })
    }

    fn poll_all(&mut self, rules: &LayerConfig, cx: &mut Context<'_>) -> Poll<Result<(), KeyError>> {
        let mut are_over = true;
        for lookup in &mut self.lookups {
            match lookup.poll(rules, cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
                Poll::Pending => are_over = false,
            }
        }
        if are_over {
            return Poll::Ready(Ok(()));
        }
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(rules.lookup_deadline())));
        ready!(deadline.as_mut().poll(cx));
        for lookup in &mut self.lookups {
            lookup.expire(rules)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Provisional {
    fn drop(&mut self) {
        let Charged { outcome, wait } = mem::take(&mut self.charged);
        drop(Refunds::start(&self.rules, outcome.as_ref(), wait.until, Keep::CountedRejections));
    }
}
