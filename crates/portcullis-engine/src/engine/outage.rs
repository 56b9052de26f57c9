//! The outages of a store in the log: one line for all policies and routes that it concerns, when it begins and when it ends.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use portcullis_core::outage::Outage;
use portcullis_core::{FailureMode, Policy, PolicyName, StoreError, Timestamp};
use portcullis_log::codes;

use crate::Mode;
use crate::event::Event;

/// Policies that decide requests now, for the lines about an outage.
pub trait PoliciesInUse: Send + Sync + 'static {
    /// Visits each policy with its mode and its route, if that is known.
    fn visit(&self, visit: &mut dyn FnMut(&Policy, Mode, Option<&str>));
}

/// What the log has said about an outage of the store, and whom to ask about policies.
#[derive(Default)]
pub(crate) struct StoreOutage {
    outage: Outage,
    stated: Mutex<Stated>,
    in_use: Mutex<Vec<Weak<dyn PoliciesInUse>>>,
}

#[derive(Default)]
struct Stated {
    /// The policies and routes, as they were when the outage began.
    concerned: String,
    /// The longest time for which policies were open whose end was logged.
    expired: Duration,
}

/// A policy in a line, with its routes.
struct ConcernedPolicy {
    failure: FailureMode,
    text: String,
    routes: Vec<String>,
}

impl StoreOutage {
    /// Whether the log has an outage whose end it does not have.
    #[inline]
    pub(crate) fn is_failing(&self) -> bool {
        self.outage.is_failing()
    }

    /// Asks for policies from now on, as long as they exist.
    pub(crate) fn add(&self, in_use: Weak<dyn PoliciesInUse>) {
        let mut all = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(in_use);
    }

    /// Logs that an outage begins, if it does. `registered` are all policies of the limiter.
    #[cold]
    pub(crate) fn failed(
        &self,
        now: Timestamp,
        error: &StoreError,
        event: &Event<'_>,
        registered: impl FnOnce() -> Vec<Policy>,
    ) {
        if !self.outage.failed(now) {
            return;
        }
        let meanwhile = joined(&self.concerned(event, registered()), |_| true);
        tracing::warn!(code = %codes::STORE_FAILED, %error, meanwhile, "the store of the rate limiter cannot answer");
        *self.stated() = Stated { concerned: meanwhile, expired: Duration::ZERO };
    }

    /// Logs that the time is over for which a policy is open, and all others that are open for as long.
    #[cold]
    pub(crate) fn expired(
        &self,
        policy: &PolicyName,
        event: &Event<'_>,
        registered: impl FnOnce() -> Vec<Policy>,
    ) {
        let concerned = self.concerned(event, registered());
        let open_for = |failure: FailureMode| match failure {
            FailureMode::OpenFor(time) => time,
            _ => Duration::ZERO,
        };
        let named = concerned.iter().find(|(name, _)| name == policy).map(|(_, one)| open_for(one.failure));
        let longest = named.unwrap_or_default().max(Duration::from_nanos(1));
        let mut stated = self.stated();
        let before = stated.expired;
        if longest <= before {
            return;
        }
        stated.expired = longest;
        drop(stated);
        let policies = joined(&concerned, |failure| {
            let time = open_for(failure);
            time > before && time <= longest
        });
        let policies = if policies.is_empty() { policy.to_string() } else { policies };
        tracing::warn!(
            code = %codes::STORE_STILL_FAILED,
            policies,
            "the store of the rate limiter still cannot answer, for longer than a policy is open: requests are rejected"
        );
    }

    /// Logs that an outage ends, if it does.
    #[cold]
    pub(crate) fn answered(&self, now: impl FnOnce() -> Timestamp) {
        if self.outage.answered(now) {
            let Stated { concerned, .. } = mem::take(&mut *self.stated());
            tracing::info!(policies = concerned, "the store of the rate limiter answers again");
        }
    }

    /// The policies of the event first, then those in use, then all others.
    fn concerned(&self, event: &Event<'_>, registered: Vec<Policy>) -> Vec<(PolicyName, ConcernedPolicy)> {
        let mut concerned: Vec<(PolicyName, ConcernedPolicy)> = Vec::new();
        let mut known: HashMap<PolicyName, usize> = HashMap::new();
        let mut add = |policy: &Policy, mode: Mode, route: Option<&str>| {
            let name = policy.name();
            let index = *known.entry(name.clone()).or_insert_with(|| {
                let failure = policy.failure_mode();
                let mode = if mode == Mode::Enforce { String::new() } else { format!(" ({mode})") };
                let text = format!("{name}: {failure}{mode}");
                concerned.push((name.clone(), ConcernedPolicy { failure, text, routes: Vec::new() }));
                concerned.len() - 1
            });
            let routes = &mut concerned[index].1.routes;
            if let Some(route) = route
                && routes.len() < MAX_ROUTES
                && routes.iter().all(|known| known != route)
            {
                routes.push(route.to_owned());
            }
        };
        event.each_policy(|policy, mode| add(policy, mode, event.route().as_deref()));
        for policies in self.in_use() {
            policies.visit(&mut add);
        }
        for policy in registered {
            add(&policy, Mode::Enforce, None);
        }
        concerned
    }

    fn in_use(&self) -> Vec<Arc<dyn PoliciesInUse>> {
        let in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.iter().filter_map(Weak::upgrade).collect()
    }

    fn stated(&self) -> MutexGuard<'_, Stated> {
        self.stated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policies whose failure modes are chosen, with their routes.
fn joined(concerned: &[(PolicyName, ConcernedPolicy)], chosen: impl Fn(FailureMode) -> bool) -> String {
    let chosen: Vec<_> = concerned.iter().map(|(_, one)| one).filter(|one| chosen(one.failure)).collect();
    let mut text = String::new();
    for (index, one) in chosen.iter().take(MAX_POLICIES).enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        let on = if one.routes.is_empty() { "" } else { " on " };
        let _ = write!(text, "{separator}{}{on}{}", one.text, one.routes.join(", "));
    }
    if let more @ 1.. = chosen.len().saturating_sub(MAX_POLICIES) {
        let _ = write!(text, "; and {more} more");
    }
    text
}

/// The policies of a line.
const MAX_POLICIES: usize = 100;

/// The routes of a policy in a line.
const MAX_ROUTES: usize = 8;
