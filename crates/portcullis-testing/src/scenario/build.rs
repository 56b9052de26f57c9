//! From the shapes of the file to cases that make sense.

use std::collections::HashSet;
use std::time::Duration;

use portcullis_core::{Checks, Policy, PolicyName, Timestamp, TooMuchWork};

use super::place::Place;
use super::raw::{Cost, Op, RawCase, RawFile, RawStep, Steps};
use super::strategy::RawStrategy;
use super::values::{Instant, MAX_YEAR};
use super::{Action, Case, Expected, ScenarioError, Step};

pub(super) fn cases(place: Place<'_>) -> Result<Vec<Case>, ScenarioError> {
    let file: RawFile = toml::from_str(place.text).map_err(|error| {
        place.error(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "))
    })?;
    if file.case.is_empty() {
        return Err(place.error(0, "there is no [[case]]"));
    }
    let mut names = HashSet::new();
    let mut cases = Vec::with_capacity(file.case.len());
    for case in file.case {
        let offset = case.span().start;
        let case = case.into_inner();
        if !names.insert(case.name.clone()) {
            return Err(place.error(offset, "there is another case of this name"));
        }
        if case.name.len() > MAX_LABEL {
            return Err(place.error(offset, TOO_LONG));
        }
        cases.push(build(place, offset, case)?);
    }
    Ok(cases)
}

fn build(place: Place<'_>, offset: usize, raw: RawCase) -> Result<Case, ScenarioError> {
    let strategies = match (raw.policy, raw.policies) {
        (Some(policy), None) => vec![(SINGLE.to_owned(), policy)],
        (None, Some(policies)) => policies.into_iter().collect(),
        _ => return Err(place.error(offset, "a case has either `policy` or `policies`")),
    };
    let policies = policies(&strategies).map_err(|message| place.error(offset, message))?;
    let start = raw.start.map_or_else(|| default_start(&strategies), |Instant(start)| start);
    let mut builder =
        Builder { policies: &policies, current: policies.clone(), charges: Vec::new(), keys: Vec::new() };
    let mut steps = Vec::with_capacity(raw.steps.len());
    for step in raw.steps {
        let (offset, number) = (step.span().start, steps.len() + 1);
        let error = |message| place.error(offset, format!("step {number}: {message}"));
        let step = builder.step(start, place.line(offset), step.into_inner()).map_err(error)?;
        steps.push(step);
    }
    Ok(Case { name: raw.name, file: place.file.to_owned(), policies, steps })
}

fn policies(strategies: &[(String, RawStrategy)]) -> Result<Vec<Policy>, String> {
    if strategies.is_empty() || strategies.len() > Checks::MAX {
        return Err(format!("a case has 1 to {} policies", Checks::MAX));
    }
    let policy = |(name, raw): &(String, RawStrategy)| match PolicyName::new(name) {
        Ok(name) => Ok(Policy::new(name, raw.strategy)),
        Err(error) => Err(error.to_string()),
    };
    let policies = strategies.iter().map(policy).collect::<Result<Vec<_>, _>>()?;
    TooMuchWork::check(&policies).map_err(|error| error.to_string())?;
    Ok(policies)
}

fn default_start(strategies: &[(String, RawStrategy)]) -> Timestamp {
    let longest = strategies.iter().map(|(_, raw)| raw.period.as_micros()).max().unwrap_or(1);
    let since_last = u128::from(NEW_YEAR_2026) % longest.max(1);
    Timestamp::from_micros(NEW_YEAR_2026 - u64::try_from(since_last).unwrap_or(0))
}

/// What the steps so far have led to.
struct Builder<'a> {
    policies: &'a [Policy],
    /// The policies under the quotas as they stand now.
    current: Vec<Policy>,
    /// Per step, which policies hold a charge of it.
    charges: Vec<Vec<bool>>,
    /// Per step, the key that was charged.
    keys: Vec<String>,
}

impl Builder<'_> {
    fn step(&mut self, start: Timestamp, line: usize, mut raw: RawStep) -> Result<Step, String> {
        let at = instant(start, raw.at.take().map(|at| at.0))?;
        let policy = raw.policy.take().map(|name| self.policy(&name)).transpose()?;
        let key = raw.key.take();
        if key.as_ref().is_some_and(|key| key.len() > MAX_LABEL) {
            return Err(TOO_LONG.to_owned());
        }
        let mut charges = vec![false; self.policies.len()];
        let action = match raw.op {
            None => {
                only_without(policy.is_some(), "policy", "a check, which asks all of them")?;
                let allow = raw.allow.take().ok_or("a check needs `allow`")?;
                let costs = self.costs(raw.cost.take())?;
                charges = costs.iter().map(|cost| allow && *cost > 0).collect();
                only_without(allow && raw.retry_after.is_some(), "retry_after", "an allowed check")?;
                Action::Check { costs, allow }
            }
            Some(Op::Refund) => {
                let (steps, _) = self.charged(&mut raw, policy)?;
                Action::Refund { steps, policy, if_newest: raw.if_newest.take().unwrap_or(false) }
            }
            Some(Op::Settle) => {
                let Some(Cost::OfAll(cost)) = raw.cost.take() else {
                    return Err("a settlement needs `cost`, one number".to_owned());
                };
                let (steps, held) = self.charged(&mut raw, policy)?;
                charges = held.into_iter().map(|held| held && cost > 0).collect();
                Action::Settle { steps, policy, cost }
            }
            Some(Op::Reset) => Action::Reset { policy },
            Some(Op::SetQuota) => {
                let to = raw.to.take().ok_or("a new quota needs `to`, a strategy")?.strategy;
                let only = (self.policies.len() == 1).then_some(0);
                let policy = policy.or(only).ok_or("a new quota of several policies needs `policy`")?;
                self.current[policy] = Policy::new(self.policies[policy].name().clone(), to);
                TooMuchWork::check(&self.current).map_err(|error| error.to_string())?;
                Action::SetQuota { policy, to }
            }
        };
        let of_a_step = matches!(action, Action::Refund { .. } | Action::Settle { .. });
        only_without(of_a_step && key.is_some(), "key", "a step that names another")?;
        leftovers(&raw, &action)?;
        let key = key.unwrap_or_else(|| DEFAULT_KEY.to_owned());
        self.charges.push(charges);
        self.keys.push(match &action {
            // A settlement leaves a charge to the same key.
            Action::Settle { steps, .. } => self.keys[steps[0]].clone(),
            _ => key.clone(),
        });
        Ok(Step { line, at, key, action, expected: self.expected(raw)? })
    }

    fn policy(&self, name: &str) -> Result<usize, String> {
        self.policies
            .iter()
            .position(|policy| policy.name().as_str() == name)
            .ok_or_else(|| format!("the case has no policy {name:?}"))
    }

    fn costs(&self, cost: Option<Cost>) -> Result<Vec<u32>, String> {
        let each = match cost {
            None => return Ok(vec![1; self.policies.len()]),
            Some(Cost::OfAll(cost)) => return Ok(vec![cost; self.policies.len()]),
            Some(Cost::Each(each)) => each,
        };
        for name in each.keys() {
            self.policy(name)?;
        }
        let cost = |policy: &Policy| {
            let name = policy.name().as_str();
            each.get(name).copied().ok_or_else(|| format!("the cost for policy {name:?} is missing"))
        };
        self.policies.iter().map(cost).collect()
    }

    /// The indexes of the steps that are refunded or settled together, and which policies hold their charges. Uses up the
    /// receipts.
    fn charged(
        &mut self,
        raw: &mut RawStep,
        policy: Option<usize>,
    ) -> Result<(Vec<usize>, Vec<bool>), String> {
        let numbers = match raw.step.take() {
            Some(Steps::One(number)) => vec![number],
            Some(Steps::Several(numbers)) => numbers,
            None => Vec::new(),
        };
        if numbers.is_empty() {
            return Err("`step` must say which charge is meant".to_owned());
        }
        let (mut steps, mut under) = (Vec::with_capacity(numbers.len()), vec![false; self.policies.len()]);
        for number in numbers {
            let index = number.checked_sub(1).ok_or("steps are numbered from 1")?;
            let held =
                self.charges.get_mut(index).ok_or_else(|| format!("step {number} is not before this one"))?;
            let mut found = false;
            for (place, held) in held.iter_mut().enumerate() {
                let meant = *held && policy.is_none_or(|policy| policy == place);
                found |= meant;
                under[place] |= meant;
                *held &= !meant;
            }
            if !found {
                return Err(format!("step {number} is no charge, or is refunded or settled already"));
            }
            if steps.first().is_some_and(|first: &usize| self.keys[*first] != self.keys[index]) {
                return Err(format!("step {number} is a charge of another key"));
            }
            steps.push(index);
        }
        Ok((steps, under))
    }

    fn expected(&self, raw: RawStep) -> Result<Expected, String> {
        if let Some(name) = &raw.decided_by {
            self.policy(name)?;
        }
        Ok(Expected {
            limit: raw.limit,
            remaining: raw.remaining,
            retry_after: raw.retry_after.map(|wait| wait.0),
            reset_after: raw.reset_after.map(|wait| wait.0),
            next_after: raw.next_after.map(|wait| wait.0),
            delay: raw.delay.map(|wait| wait.0),
            decided_by: raw.decided_by,
            uncharged: raw.uncharged,
        })
    }
}

fn instant(start: Timestamp, at: Option<Duration>) -> Result<Timestamp, String> {
    let at = at.ok_or("a step needs `at`")?;
    let instant = start.saturating_add(at);
    if instant == Timestamp::MAX {
        return Err(format!("`at` is after {MAX_YEAR}, when time ends"));
    }
    Ok(instant)
}

/// What the step has to say and its operation does not take.
fn leftovers(raw: &RawStep, action: &Action) -> Result<(), String> {
    let of = match action {
        Action::Check { .. } => "a check",
        Action::Refund { .. } => "a refund",
        Action::Settle { .. } => "a settlement",
        Action::Reset { .. } => "a reset",
        Action::SetQuota { .. } => "a new quota",
    };
    let settles = matches!(action, Action::Settle { .. });
    let checks = matches!(action, Action::Check { .. });
    only_without(raw.allow.is_some(), "allow", of)?;
    only_without(raw.cost.is_some(), "cost", of)?;
    only_without(raw.step.is_some(), "step", of)?;
    only_without(raw.if_newest.is_some(), "if_newest", of)?;
    only_without(raw.to.is_some(), "to", of)?;
    only_without(raw.retry_after.is_some() && !checks, "retry_after", of)?;
    only_without(raw.uncharged.is_some() && !settles, "uncharged", of)
}

fn only_without(wrong: bool, field: &str, of: &str) -> Result<(), String> {
    if wrong { Err(format!("`{field}` does not belong to {of}")) } else { Ok(()) }
}

const SINGLE: &str = "policy";
const DEFAULT_KEY: &str = "default";
const NEW_YEAR_2026: u64 = 1_767_225_600_000_000;
/// Names and keys are hashed into keys, which have a bound.
const MAX_LABEL: usize = 1_024;
const TOO_LONG: &str = "a name or a key has at most 1024 bytes";
