//! What the store is asked about a request.

use http::request::Parts;
use portcullis_core::{Checks, FailureMode, Key, Receipt};

use super::resolved_key::{KeySource, PendingLookup, ResolvedKey};
use super::{LayerConfig, LayerPolicy, ShadowChecks};
use crate::KeyError;

/// What the store is asked.
#[derive(Default)]
pub(crate) struct Plan {
    /// The policies that are enforced, in one question; `None` if none of them counts the request.
    pub(crate) enforced: Option<(Checks, OnStoreFailure)>,
    pub(crate) shadow: ShadowChecks,
    /// Whether look-ups follow if the request passes.
    pub(crate) looks_up: bool,
    /// Why the request is rejected if it passes: its identity is missing or broken.
    pub(crate) rejection: Option<KeyError>,
}

/// What to do with a request if the store cannot answer.
#[derive(Clone, Copy)]
pub(crate) struct OnStoreFailure {
    /// The rules that were asked about, a bit for each.
    asked: u32,
    /// Whether a policy that was asked about is other than open: then a request is refused.
    pub(super) refuses: bool,
}

impl OnStoreFailure {
    /// The rules that were asked about.
    pub(super) fn asked(self) -> impl Iterator<Item = usize> {
        (0..Checks::MAX).filter(move |index| self.asked & (1 << index) != 0)
    }
}

impl Plan {
    pub(super) fn add(&mut self, index: usize, rule: &LayerPolicy, key: Key, cost: u32) {
        let policy = rule.policy.clone();
        if rule.is_shadow {
            self.shadow.push((index, Checks::one(policy, key, cost)));
            return;
        }
        let refuses = policy.failure_mode() != FailureMode::Open;
        let asked = 1 << index;
        self.enforced = Some(match self.enforced.take() {
            None => (Checks::one(policy, key, cost), OnStoreFailure { asked, refuses }),
            Some((checks, OnStoreFailure { asked: before, refuses: refuses_before })) => (
                checks.and(policy, key, cost).expect("the layer was built within the bounds of a decision"),
                OnStoreFailure { asked: asked | before, refuses: refuses || refuses_before },
            ),
        });
    }
}

impl LayerConfig {
    /// What to ask about a request before anything is looked up: the policies with synchronous keys.
    ///
    /// Of a request whose identity is missing or broken only the policies that [count rejections](LayerPolicy::counts_rejection)
    /// are asked. The others have nothing to decide about a request that is rejected in any case, and what they are not
    /// charged need not be refunded.
    pub(crate) fn question(&self, parts: &Parts) -> Plan {
        self.synchronous(parts).unwrap_or_else(|error| self.rejected(parts, error))
    }

    /// What to ask about a request once its look-ups are done: the policies whose keys they found, and all shadow policies,
    /// those with synchronous keys from `shadow`.
    ///
    /// # Errors
    ///
    /// If an identity is missing that an enforced policy needs.
    pub(crate) fn second_question(
        &self,
        parts: &Parts,
        lookups: &[PendingLookup],
        shadow: ShadowChecks,
    ) -> Result<Plan, KeyError> {
        let mut question = Plan { shadow, ..Plan::default() };
        let mut current = None;
        for (index, rule) in self.list.iter().enumerate() {
            if !matches!(rule.key, KeySource::Async(_)) {
                continue;
            }
            // A rule without a look-up of its own has the key of the one before it.
            current = lookups.iter().find_map(|lookup| lookup.caller_of(index)).or(current);
            self.add(&mut question, index, current.expect("all look-ups are done"), parts)?;
        }
        question.shadow.sort_by_key(|(index, _)| *index);
        Ok(question)
    }

    /// Whether a charge stays when the request is rejected for its identity.
    pub(crate) fn counts_rejection(&self, charged: &Receipt) -> bool {
        let rule = self.list.iter().find(|rule| rule.policy.name() == charged.policy().name());
        rule.is_some_and(|rule| rule.counts_rejection(charged.key()))
    }

    fn synchronous(&self, parts: &Parts) -> Result<Plan, KeyError> {
        let mut question = Plan::default();
        let mut previous: Option<(&KeySource, Result<ResolvedKey, KeyError>)> = None;
        for (index, rule) in self.list.iter().enumerate() {
            let KeySource::Sync(extractor) = &rule.key else {
                question.looks_up = true;
                continue;
            };
            let caller = match previous {
                Some((key, caller)) if key.is(&rule.key) => caller,
                _ => ResolvedKey::find(&**extractor, self.registry.secret(), parts)
                    .inspect_err(|error| self.note_broken(rule, error)),
            };
            self.add(&mut question, index, &caller, parts)?;
            previous = Some((&rule.key, caller));
        }
        Ok(question)
    }

    fn rejected(&self, parts: &Parts, error: KeyError) -> Plan {
        let mut question = Plan::default();
        // What the server lacks is not the client's to pay.
        if error.is_client_fault() {
            for (index, rule) in self.list.iter().enumerate().filter(|(_, rule)| !rule.is_shadow) {
                let KeySource::Sync(extractor) = &rule.key else { continue };
                let key = ResolvedKey::find(&**extractor, self.registry.secret(), parts)
                    .and_then(|caller| rule.key_to_charge(caller, self.registry.secret()));
                match key {
                    Ok(Some(key)) if rule.counts_rejection(key) => {
                        question.add(index, rule, key, rule.cost_of(parts));
                    }
                    Err(error) if !error.is_client_fault() => self.notices.misconfigured(&error),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        question.rejection = Some(error);
        question
    }

    /// Adds a rule to a question, if it counts the caller.
    fn add(
        &self,
        question: &mut Plan,
        index: usize,
        caller: &Result<ResolvedKey, KeyError>,
        parts: &Parts,
    ) -> Result<(), KeyError> {
        let rule = &self.list[index];
        let key_to_charge = match caller {
            Ok(caller) => {
                if matches!(caller, ResolvedKey::Missing) {
                    self.notices.identity_missing(rule.policy.name(), rule.on_missing);
                }
                rule.key_to_charge(*caller, self.registry.secret())
            }
            Err(error) => Err(error.clone()),
        };
        match key_to_charge {
            Ok(Some(key)) => question.add(index, rule, key, rule.cost_of(parts)),
            Ok(None) => {}
            // A shadow policy never rejects.
            Err(error) if rule.is_shadow => self.notices.shadow_sees_nobody(rule.policy.name(), &error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn note_broken(&self, rule: &LayerPolicy, error: &KeyError) {
        if error.is_client_fault() {
            self.notices.identity_broken(rule.policy.name(), error);
        }
    }

    /// Logs a look-up that found a broken identity, or has failed.
    pub(super) fn note_lookup(&self, rule: &LayerPolicy, error: &KeyError) {
        if error.is_client_fault() {
            self.notices.identity_broken(rule.policy.name(), error);
        } else {
            self.notices.lookup_failed(rule.policy.name(), error);
        }
    }
}
