//! From a request to the question for the store, and from its answer to what becomes of the request.

mod caller;
mod nesting;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use portcullis_core::{
    Checks, Decision, Key, Outcome, Policy, Secret, StoreError, StoreFailure, StoreFuture,
};

use crate::answer::{Note, Refusal};
use crate::notices::Notices;
use crate::{Gate, KeyError};

pub(crate) use caller::{Caller, KeySource, Lookups};

/// What becomes of a request that has no identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is refused: 400, or `INVALID_ARGUMENT` in gRPC; 401 and `UNAUTHENTICATED` where a credential was asked for
    /// ([`KeyExtractor::challenge`](crate::KeyExtractor::challenge)).
    #[default]
    Reject,
    /// It is charged to one budget that all requests without an identity share.
    Shared,
    /// This policy does not count it. Whoever leaves the identity out is not limited: fit where something in front has
    /// seen to it that only those leave it out who may.
    Exempt,
}

/// A policy, and how to apply it to a request.
#[derive(Clone)]
pub(crate) struct Rule {
    pub(crate) policy: Policy,
    pub(crate) key: KeySource,
    pub(crate) on_missing: OnMissing,
    pub(crate) cost: Option<Arc<Cost>>,
}

type Cost = dyn Fn(&Parts) -> u32 + Send + Sync;

impl Rule {
    pub(crate) fn new(policy: Policy, key: KeySource) -> Self {
        Self { policy, key, on_missing: OnMissing::default(), cost: None }
    }

    /// Whom to charge, if anybody.
    fn payer(&self, caller: Caller, secret: &Secret) -> Result<Option<Key>, KeyError> {
        match (caller, self.on_missing) {
            (Caller::Known(key), _) => Ok(Some(key)),
            (Caller::Exempt, _) | (Caller::Missing, OnMissing::Exempt) => Ok(None),
            (Caller::Missing, OnMissing::Shared) => {
                let mut hasher = secret.hasher();
                hasher.writer().part("portcullis.missing", b"");
                Ok(Some(hasher.finish()?))
            }
            (Caller::Missing, OnMissing::Reject) => Err(match self.key.challenge() {
                Some(challenge) => KeyError::unauthenticated(NOBODY, challenge),
                None => KeyError::client(NOBODY),
            }),
        }
    }
}

const NOBODY: &str = "the request does not say who is calling";

/// Everything a layer knows. Never empty.
#[derive(Clone)]
pub(crate) struct Rules {
    gate: Arc<Gate>,
    list: Vec<Rule>,
    decision_in_response: bool,
    notices: Notices,
}

/// What the store is asked, and what to do if it cannot answer.
pub(crate) struct Question {
    pub(crate) checks: Checks,
    pub(crate) otherwise: Otherwise,
}

/// What to do with a request if the store cannot answer.
#[derive(Clone, Copy)]
pub(crate) struct Otherwise {
    /// The first rule that was asked about.
    first: usize,
    /// Whether a policy that was asked about is closed.
    closed: bool,
}

/// What becomes of a request.
pub(crate) enum Conclusion {
    Pass(Note),
    Refuse(Response<Full<Bytes>>),
}

impl Rules {
    pub(crate) fn new(gate: Arc<Gate>, first: Rule) -> Self {
        Self { gate, list: vec![first], decision_in_response: false, notices: Notices::default() }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.list.iter()
    }

    pub(crate) fn push(&mut self, rule: Rule) {
        self.list.push(rule);
    }

    pub(crate) fn last_mut(&mut self) -> &mut Rule {
        self.list.last_mut().expect("a layer has at least one rule")
    }

    pub(crate) fn put_decision_in_response(&mut self) {
        self.decision_in_response = true;
    }

    /// What to ask about a request; `None` if no rule counts it. `looked_up` has the callers of the rules that
    /// [look them up](Rules::look_up).
    pub(crate) fn question(
        &self,
        parts: &Parts,
        looked_up: &[Option<Caller>],
    ) -> Result<Option<Question>, KeyError> {
        let mut question: Option<Question> = None;
        let mut previous: Option<(&KeySource, Caller)> = None;
        for (index, rule) in self.list.iter().enumerate() {
            let caller = match (previous, &rule.key) {
                (Some((key, caller)), _) if key.is(&rule.key) => caller,
                (_, KeySource::Now(key)) => Caller::find(&**key, self.gate.secret(), parts)
                    .inspect_err(|error| self.note_broken(rule, error))?,
                (_, KeySource::Later(_)) => looked_up
                    .get(index)
                    .copied()
                    .flatten()
                    .expect("a caller is looked up before the question"),
            };
            previous = Some((&rule.key, caller));
            if matches!(caller, Caller::Missing) {
                self.notices.identity_missing(rule.policy.name(), rule.on_missing);
            }
            let Some(key) = rule.payer(caller, self.gate.secret())? else { continue };
            let cost = rule.cost.as_ref().map_or(1, |cost| cost(parts));
            let policy = rule.policy.clone();
            let closed = policy.store_failure() == StoreFailure::Closed;
            question = Some(match question {
                None => Question {
                    checks: Checks::one(policy, key, cost),
                    otherwise: Otherwise { first: index, closed },
                },
                Some(Question { checks, otherwise: Otherwise { first, closed: before } }) => Question {
                    checks: checks
                        .and(policy, key, cost)
                        .expect("the policies of a layer have different names and are at most Checks::MAX"),
                    otherwise: Otherwise { first, closed: closed || before },
                },
            });
        }
        Ok(question)
    }

    pub(crate) fn ask(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.gate.store().check(checks)
    }

    /// What becomes of a request, now that the store has answered or failed. A request that passes is told why.
    pub(crate) fn conclude<B>(
        &self,
        answer: Result<Outcome, StoreError>,
        otherwise: Otherwise,
        request: &mut Request<B>,
    ) -> Conclusion {
        let decision = match answer {
            Ok(outcome) => {
                self.notices.store_answered();
                outcome.into_decision()
            }
            Err(error) => {
                self.notices.store_failed(&error);
                if otherwise.closed {
                    return Conclusion::Refuse(Refusal::StoreFailed.response(request.headers()));
                }
                Decision::degraded(&self.list[otherwise.first].policy, SystemTime::now().into())
            }
        };
        if !decision.is_allowed() {
            let mut response = Refusal::Limited(&decision).response(request.headers());
            if self.decision_in_response {
                response.extensions_mut().insert(decision);
            }
            return Conclusion::Refuse(response);
        }
        self.leave_decision(decision.clone(), request.extensions_mut());
        Conclusion::Pass(Note { decision, in_extensions: self.decision_in_response })
    }

    fn note_broken(&self, rule: &Rule, error: &KeyError) {
        if error.is_client_fault() {
            self.notices.identity_broken(rule.policy.name(), error);
        }
    }

    /// The answer to a request whose caller cannot be told.
    pub(crate) fn refuse_key(&self, error: &KeyError, request: &HeaderMap) -> Response<Full<Bytes>> {
        if !error.is_client_fault() {
            self.notices.misconfigured(error);
        }
        Refusal::NoKey(error).response(request)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|rule| rule.policy.name())).finish()
    }
}
