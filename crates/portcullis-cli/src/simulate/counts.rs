//! What happened to the requests, from the events of the layers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::{Decision, PolicyName};
use portcullis_tower::{Event, EventKind, Observer, Reason};

use super::callers::Callers;
use super::series::{Peak, Series};

/// What happened to the requests of a log.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The requests that were sent through the layers.
    pub requests: u64,
    /// The requests that were rejected, by whatever rule.
    pub rejected: u64,
    /// The lines that are no HTTP request, which a server rejects before it calls the layers.
    pub unusable: u64,
    /// The requests that had to wait.
    pub waited: u64,
    /// The first and the last instant, in microseconds since the Unix epoch.
    pub span: Option<(u64, u64)>,
    /// The requests of the busiest second.
    pub peak: Peak,
    /// By policy, and by the other reasons of rejections.
    pub rules: Vec<RuleCounts>,
    /// The requests that were rejected, or would have been by a shadow policy, by rule and caller.
    pub callers: Callers,
    /// Over time.
    pub series: Series,
    policies: HashMap<PolicyName, usize, foldhash::fast::RandomState>,
    others: HashMap<String, usize>,
}

/// What one policy did, or one of the other reasons of rejections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// The name of the policy, or the other reason.
    pub name: String,
    /// The requests that were decided under it.
    pub requests: u64,
    /// The requests that it denied.
    pub rejected: u64,
    /// The requests that it would have denied, in shadow mode.
    pub shadow: u64,
    /// The requests of the busiest second.
    pub peak: Peak,
    /// The rejections of the second with the most of them.
    pub peak_rejected: Peak,
}

/// The request that is being decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Current {
    pub(super) micros: u64,
    caller: String,
    /// The caller, until it is asked for as text: most are not.
    address: Option<IpAddr>,
    /// The rules that rejected it.
    pub(super) rejected_by: Vec<usize>,
    pub(super) is_rejected: bool,
    /// The policy that has not found an identity.
    unidentified: Option<PolicyName>,
}

/// Counts the events of layers.
#[derive(Clone, Debug)]
pub(super) struct Recorder(Arc<Mutex<State>>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) counts: Counts,
    pub(super) current: Current,
}

impl Recorder {
    pub(super) fn new(kept_callers: usize) -> Self {
        let counts = Counts { callers: Callers::new(kept_callers), ..Counts::default() };
        Self(Arc::new(Mutex::new(State { counts, current: Current::default() })))
    }

    /// The counts are consistent between any two statements.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with a request, whose caller is a text or the address.
    pub(super) fn begin(&self, micros: u64, caller: Option<&str>, address: IpAddr) {
        let State { counts, current } = &mut *self.state();
        current.micros = micros;
        current.caller.clear();
        current.caller.push_str(caller.unwrap_or_default());
        current.address = caller.is_none().then_some(address);
        current.rejected_by.clear();
        current.is_rejected = false;
        current.unidentified = None;
        counts.requests += 1;
        counts.span = Some(counts.span.map_or((micros, micros), |(first, _)| (first, micros)));
        counts.peak.add(micros);
        counts.series.request(micros);
    }

    /// Goes on with a request that has waited, and keeps the one before in its place.
    pub(super) fn swap(&self, current: &mut Current) {
        mem::swap(&mut self.state().current, current);
    }
}

impl Current {
    /// The caller, as the log shows it.
    pub(super) fn caller(&mut self) -> &str {
        if let Some(address) = self.address.take() {
            let _ = write!(self.caller, "{address}");
        }
        &self.caller
    }
}

impl Observer for Recorder {
    fn on_event(&self, event: &Event<'_>) {
        self.state().on_event(&event.kind);
    }
}

impl State {
    fn on_event(&mut self, kind: &EventKind<'_>) {
        match kind {
            EventKind::Admitted { decisions } => self.decided(decisions),
            EventKind::Rejected { reason, decisions } => self.rejected(*reason, decisions),
            EventKind::ShadowWouldReject { decision } => {
                let rule = self.counts.policy(decision.policy());
                self.counts.rules[rule].shadow += 1;
                self.counts.callers.add(rule, self.current.caller());
            }
            EventKind::IdentityMissing { policy, .. } | EventKind::IdentityMalformed { policy, .. } => {
                self.current.unidentified = Some((*policy).clone());
            }
            _ => {}
        }
    }

    fn decided(&mut self, decisions: &[Decision]) {
        for decision in decisions.iter().filter(|decision| decision.is_metered()) {
            let rule = self.counts.policy(decision.policy());
            let rule = &mut self.counts.rules[rule];
            rule.requests += 1;
            rule.peak.add(self.current.micros);
        }
    }

    fn rejected(&mut self, reason: Reason, decisions: &[Decision]) {
        self.decided(decisions);
        self.current.is_rejected = true;
        self.counts.rejected += 1;
        self.counts.series.rejected(self.current.micros);
        let mut is_attributed = false;
        for decision in decisions.iter().filter(|decision| !decision.is_allowed()) {
            let rule = self.counts.policy(decision.policy());
            self.rejected_by(rule);
            is_attributed = true;
        }
        if is_attributed {
            return;
        }
        let rule = self.counts.other(match (reason, &self.current.unidentified) {
            (Reason::BadIdentity | Reason::Unauthenticated, Some(policy)) => format!("{policy}: no identity"),
            (Reason::Denied, _) => "denied by a list".to_owned(),
            (Reason::Overloaded, _) => "too many requests wait".to_owned(),
            (other, _) => format!("{other:?}"),
        });
        self.counts.rules[rule].requests += 1;
        self.rejected_by(rule);
    }

    fn rejected_by(&mut self, rule: usize) {
        let (counts, current) = (&mut self.counts, &mut self.current);
        counts.rules[rule].rejected += 1;
        counts.rules[rule].peak_rejected.add(current.micros);
        counts.series.rejected_by(current.micros, rule);
        counts.callers.add(rule, current.caller());
        current.rejected_by.push(rule);
    }
}

impl Counts {
    /// The counts of a rule.
    pub fn rule(&self, name: &str) -> Option<&RuleCounts> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    fn policy(&mut self, name: &PolicyName) -> usize {
        if let Some(index) = self.policies.get(name) {
            return *index;
        }
        let index = add(&mut self.rules, name.to_string());
        self.policies.insert(name.clone(), index);
        index
    }

    /// What rejects requests that is no policy.
    fn other(&mut self, name: String) -> usize {
        let rules = &mut self.rules;
        *self.others.entry(name).or_insert_with_key(|name| add(rules, name.clone()))
    }
}

fn add(rules: &mut Vec<RuleCounts>, name: String) -> usize {
    rules.push(RuleCounts { name, ..RuleCounts::default() });
    rules.len() - 1
}
