//! What the store is asked about a request.

use http::request::Parts;
use portcullis_core::{Checks, Key, StoreFailure};

use super::caller::{Caller, KeySource, Looked};
use super::{Rule, Rules, ShadowChecks};
use crate::KeyError;

/// What the store is asked.
#[derive(Default)]
pub(crate) struct Question {
    /// The policies that are enforced, in one question; `None` if none of them counts the request.
    pub(crate) enforced: Option<(Checks, Otherwise)>,
    pub(crate) shadow: ShadowChecks,
}

/// What to do with a request if the store cannot answer.
#[derive(Clone, Copy)]
pub(crate) struct Otherwise {
    /// The rules that were asked about, a bit for each.
    asked: u32,
    /// Whether a policy that was asked about is other than open: then a request is refused.
    pub(super) refuses: bool,
}

impl Otherwise {
    /// The rules that were asked about.
    pub(super) fn asked(self) -> impl Iterator<Item = usize> {
        (0..Checks::MAX).filter(move |index| self.asked & (1 << index) != 0)
    }
}

impl Question {
    pub(super) fn add(&mut self, index: usize, rule: &Rule, key: Key, cost: u32) {
        let policy = rule.policy.clone();
        if rule.is_shadow {
            self.shadow.push((index, Checks::one(policy, key, cost)));
            return;
        }
        let refuses = policy.store_failure() != StoreFailure::Open;
        let asked = 1 << index;
        self.enforced = Some(match self.enforced.take() {
            None => (Checks::one(policy, key, cost), Otherwise { asked, refuses }),
            Some((checks, Otherwise { asked: before, refuses: refuses_before })) => (
                checks
                    .and(policy, key, cost)
                    .expect("the policies of a layer have different names and are at most Checks::MAX"),
                Otherwise { asked: asked | before, refuses: refuses || refuses_before },
            ),
        });
    }
}

impl Rules {
    /// What to ask about a request. `looked_up` has the callers of the rules that [look them up](Rules::look_up).
    pub(crate) fn question(&self, parts: &Parts, looked_up: &[Looked]) -> Result<Question, KeyError> {
        let mut question = Question::default();
        let mut previous: Option<(&KeySource, Result<Caller, KeyError>)> = None;
        for (index, rule) in self.list.iter().enumerate() {
            let caller = match (previous, &rule.key) {
                (Some((key, caller)), _) if key.is(&rule.key) => caller,
                (_, KeySource::Now(key)) => Caller::find(&**key, self.gate.secret(), parts)
                    .inspect_err(|error| self.note_broken(rule, error)),
                (_, KeySource::Later(_)) => looked_up
                    .get(index)
                    .cloned()
                    .flatten()
                    .expect("a caller is looked up before the question"),
            };
            let payer = match &caller {
                Ok(caller) => {
                    if matches!(caller, Caller::Missing) {
                        self.notices.identity_missing(rule.policy.name(), rule.on_missing);
                    }
                    rule.payer(*caller, self.gate.secret())
                }
                Err(error) => Err(error.clone()),
            };
            previous = Some((&rule.key, caller));
            match payer {
                Ok(Some(key)) => {
                    question.add(index, rule, key, rule.cost_of(parts));
                }
                Ok(None) => {}
                // Who only watches does not turn anybody away.
                Err(error) if rule.is_shadow => self.notices.shadow_sees_nobody(rule.policy.name(), &error),
                Err(error) => return Err(error),
            }
        }
        Ok(question)
    }

    pub(super) fn note_broken(&self, rule: &Rule, error: &KeyError) {
        if error.is_client_fault() {
            self.notices.identity_broken(rule.policy.name(), error);
        }
    }
}
