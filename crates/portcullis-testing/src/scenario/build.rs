//! Validates the deserialized file and builds the cases.

use std::collections::HashSet;
use std::time::Duration;

use portcullis_core::store::Checks;
use portcullis_core::{Policy, PolicyName, Strategy, Timestamp, TooMuchWork};

use super::overrides;
use super::raw::{Cost, Op, RawCase, RawFile, RawStep, Steps};
use super::source::SourceFile;
use super::strategy::RawStrategy;
use super::values::{Instant, MAX_YEAR};
use super::{Action, Case, Expected, ScenarioError, Step};

pub(super) fn cases(source: SourceFile<'_>) -> Result<Vec<Case>, ScenarioError> {
    let file: RawFile = toml::from_str(source.text).map_err(|error| {
        source.error(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "))
    })?;
    if file.case.is_empty() {
        return Err(source.error(0, "there is no [[case]]"));
    }
    let mut names = HashSet::new();
    let mut cases = Vec::with_capacity(file.case.len());
    for case in file.case {
        let offset = case.span().start;
        let case = case.into_inner();
        if !names.insert(case.name.clone()) {
            return Err(source.error(offset, "another case has this name"));
        }
        if case.name.len() > MAX_LABEL {
            return Err(source.error(offset, TOO_LONG));
        }
        cases.push(build(source, offset, case)?);
    }
    Ok(cases)
}

fn build(source: SourceFile<'_>, offset: usize, raw: RawCase) -> Result<Case, ScenarioError> {
    let strategies = match (raw.policy, raw.policies) {
        (Some(policy), None) => vec![(SINGLE.to_owned(), policy)],
        (None, Some(policies)) => policies.into_iter().collect(),
        _ => return Err(source.error(offset, "a case has either `policy` or `policies`")),
    };
    let mut policies = policies(&strategies).map_err(|message| source.error(offset, message))?;
    if raw.steps.iter().any(|step| step.as_ref().op.is_some_and(Op::is_override)) {
        policies = policies.into_iter().map(Policy::allow_overrides).collect();
    }
    let start = raw.start.map_or_else(|| default_start(&strategies), |Instant(start)| start);
    let mut builder =
        Builder { policies: &policies, current: policies.clone(), charges: Vec::new(), keys: Vec::new() };
    let mut steps = Vec::with_capacity(raw.steps.len());
    for step in raw.steps {
        let (offset, number) = (step.span().start, steps.len() + 1);
        let error = |message| source.error(offset, format!("step {number}: {message}"));
        let step = builder.step(start, source.line(offset), step.into_inner()).map_err(error)?;
        steps.push(step);
    }
    Ok(Case { name: raw.name, file: source.file.to_owned(), policies, steps })
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

/// The state after the steps so far.
struct Builder<'a> {
    policies: &'a [Policy],
    /// The policies with their current quotas.
    current: Vec<Policy>,
    /// Per step, the policies that hold a charge of it.
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
        let only = (self.policies.len() == 1).then_some(0);
        let one_of = |what: &str| {
            policy.or(only).ok_or_else(|| format!("{what} in a case with several policies needs `policy`"))
        };
        let mut charges = vec![false; self.policies.len()];
        let action = match raw.op {
            None => {
                reject_if(policy.is_some(), "policy", "a check, which covers all policies")?;
                let allow = raw.allow.take().ok_or("a check needs `allow`")?;
                let costs = self.costs(raw.cost.take())?;
                charges = costs.iter().map(|cost| allow && *cost > 0).collect();
                reject_if(allow && raw.retry_after.is_some(), "retry_after", "an allowed check")?;
                Action::Check { costs, allow }
            }
            Some(Op::Refund) => {
                let (steps, _) = self.take_charges(&mut raw, policy)?;
                Action::Refund { steps, policy, if_newest: raw.if_newest.take().unwrap_or(false) }
            }
            Some(Op::Settle) => {
                let Some(Cost::Uniform(cost)) = raw.cost.take() else {
                    return Err("a settlement needs `cost`, one number".to_owned());
                };
                let (steps, held) = self.take_charges(&mut raw, policy)?;
                charges = held.into_iter().map(|held| held && cost > 0).collect();
                Action::Settle { steps, policy, cost }
            }
            Some(Op::Renew) => Action::Renew { steps: self.charged_steps(&mut raw, policy)?, policy },
            Some(Op::Reset) => Action::Reset { policy },
            Some(Op::SetQuota) => {
                let to = raw.to.take().ok_or("a new quota needs `to`, a strategy")?.strategy;
                let policy = one_of("a new quota")?;
                self.current[policy] = with_strategy(&self.policies[policy], to);
                TooMuchWork::check(&self.current).map_err(|error| error.to_string())?;
                Action::SetQuota { policy, to }
            }
            Some(op @ (Op::Grant | Op::Block | Op::Unblock | Op::Denials)) => {
                let policy = one_of("an override")?;
                let (change, blocked_for) = overrides::change(op, &mut raw, &self.current[policy])?;
                Action::Override { policy, change, blocked_for }
            }
        };
        let of_a_step =
            matches!(action, Action::Refund { .. } | Action::Settle { .. } | Action::Renew { .. });
        reject_if(of_a_step && key.is_some(), "key", "a step that names another")?;
        reject_unused_fields(&raw, &action)?;
        let key = key.unwrap_or_else(|| DEFAULT_KEY.to_owned());
        self.charges.push(charges);
        self.keys.push(match &action {
            // A settlement leaves a charge of the same key.
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

    fn costs(&self, cost: Option<Cost>) -> Result<Vec<u64>, String> {
        let each = match cost {
            None => return Ok(vec![1; self.policies.len()]),
            Some(Cost::Uniform(cost)) => return Ok(vec![cost; self.policies.len()]),
            Some(Cost::PerPolicy(each)) => each,
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

    /// Returns the indexes of the steps whose permits are renewed. They keep their charges.
    fn charged_steps(&mut self, raw: &mut RawStep, policy: Option<usize>) -> Result<Vec<usize>, String> {
        let charges = self.charges.clone();
        let (steps, _) = self.take_charges(raw, policy)?;
        self.charges = charges;
        Ok(steps)
    }

    /// Returns the indexes of the steps that are refunded or settled together, and which policies hold their charges.
    /// Takes those charges, so that no later step can refund or settle them.
    fn take_charges(
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
            return Err("`step` must name a charge".to_owned());
        }
        let (mut steps, mut held_by) = (Vec::with_capacity(numbers.len()), vec![false; self.policies.len()]);
        for number in numbers {
            let index = number.checked_sub(1).ok_or("steps are numbered from 1")?;
            let held =
                self.charges.get_mut(index).ok_or_else(|| format!("step {number} is not before this one"))?;
            let mut found = false;
            for (position, held) in held.iter_mut().enumerate() {
                let matches = *held && policy.is_none_or(|policy| policy == position);
                found |= matches;
                held_by[position] |= matches;
                *held &= !matches;
            }
            if !found {
                return Err(format!("step {number} is not a charge, or is already refunded or settled"));
            }
            if steps.first().is_some_and(|first: &usize| self.keys[*first] != self.keys[index]) {
                return Err(format!("step {number} charged another key"));
            }
            steps.push(index);
        }
        Ok((steps, held_by))
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
            blocked: raw.blocked,
            uncharged: raw.uncharged,
            held: raw.held,
        })
    }
}

/// The policy with another strategy, which reads overrides if the first does.
pub(crate) fn with_strategy(policy: &Policy, strategy: Strategy) -> Policy {
    let changed = Policy::new(policy.name().clone(), strategy);
    if policy.reads_overrides() { changed.allow_overrides() } else { changed }
}

fn instant(start: Timestamp, at: Option<Duration>) -> Result<Timestamp, String> {
    let at = at.ok_or("a step needs `at`")?;
    let instant = start.saturating_add(at);
    if instant == Timestamp::MAX {
        return Err(format!("`at` is after {MAX_YEAR}, the last supported year"));
    }
    Ok(instant)
}

/// Rejects fields of the step that its operation does not use.
fn reject_unused_fields(raw: &RawStep, action: &Action) -> Result<(), String> {
    let owner = match action {
        Action::Check { .. } => "a check",
        Action::Refund { .. } => "a refund",
        Action::Settle { .. } => "a settlement",
        Action::Renew { .. } => "a renewal",
        Action::Reset { .. } => "a reset",
        Action::SetQuota { .. } => "a new quota",
        Action::Override { .. } => "this change of an override",
    };
    let settles = matches!(action, Action::Settle { .. });
    let checks = matches!(action, Action::Check { .. });
    reject_if(raw.allow.is_some(), "allow", owner)?;
    reject_if(raw.cost.is_some(), "cost", owner)?;
    reject_if(raw.step.is_some(), "step", owner)?;
    reject_if(raw.if_newest.is_some(), "if_newest", owner)?;
    reject_if(raw.to.is_some(), "to", owner)?;
    reject_if(raw.quota.is_some(), "quota", owner)?;
    reject_if(raw.length.is_some(), "for", owner)?;
    reject_if(raw.count.is_some(), "count", owner)?;
    reject_if(raw.lock_out.is_some(), "lock_out", owner)?;
    reject_if(raw.blocked_for.is_some(), "blocked_for", owner)?;
    reject_if(raw.retry_after.is_some() && !checks, "retry_after", owner)?;
    reject_if(raw.held.is_some() && !matches!(action, Action::Renew { .. }), "held", owner)?;
    reject_if(raw.uncharged.is_some() && !settles, "uncharged", owner)
}

fn reject_if(wrong: bool, field: &str, owner: &str) -> Result<(), String> {
    if wrong { Err(format!("`{field}` does not belong to {owner}")) } else { Ok(()) }
}

const SINGLE: &str = "policy";
const DEFAULT_KEY: &str = "default";
const NEW_YEAR_2026: u64 = 1_767_225_600_000_000;
/// Names and keys are hashed into store keys, whose input is bounded.
const MAX_LABEL: usize = 1_024;
const TOO_LONG: &str = "a name or a key has at most 1024 bytes";
