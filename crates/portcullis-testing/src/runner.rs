//! Runs the cases of a scenario on a system under test.

mod compare;
mod report;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use portcullis_core::store::{Checks, Renewal};
use portcullis_core::{Decision, Key, Policy, Receipt, Secret, StoreError, Timestamp};

use crate::scenario::{Action, Case, Step, with_strategy};
use crate::subject::{OverrideChange, SystemUnderTest, decisive};

use compare::{Mismatch, compare_field};
pub use report::{Failure, Report, Skipped};

/// Runs cases under keys that no other run uses, including runs of other processes on the same store.
///
/// ```
/// use portcullis_testing::{Pure, Scenario, run};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scenario = Scenario::parse(
///     "wrong.toml",
///     r#"
///     [[case]]
///     name = "expects too much"
///     policy = { strategy = "fixed_window", limit = 2, period = "1min" }
///     steps = [{ at = "0s", allow = true, remaining = 2 }]
///     "#,
/// )?;
/// let report = run(scenario.cases(), &mut Pure::new()).await;
/// let failure = &report.failures()[0];
/// assert_eq!((failure.step, failure.field), (1, "remaining"));
/// assert_eq!((failure.expected.as_str(), failure.got.as_str()), ("2", "1"));
/// # Ok(())
/// # }
/// ```
pub async fn run(cases: &[Case], subject: &mut dyn SystemUnderTest) -> Report {
    run_in(&fresh_namespace(), cases, subject).await
}

/// Like [`run`], with keys that are the same for every run with the same `namespace`.
pub async fn run_in(namespace: &str, cases: &[Case], subject: &mut dyn SystemUnderTest) -> Report {
    let mut report = Report::default();
    for case in cases {
        let corrects = |step: &Step| {
            matches!(step.action, Action::Refund { .. } | Action::Settle { .. } | Action::Renew { .. })
        };
        if !subject.hands_out_receipts() && case.steps.iter().any(corrects) {
            report.skip(case, "it refunds or settles charges, and the system under test returns no receipts");
            continue;
        }
        let overrides = |step: &Step| matches!(step.action, Action::Override { .. });
        if !subject.keeps_overrides() && case.steps.iter().any(overrides) {
            report.skip(case, "it changes overrides, and the system under test keeps none");
            continue;
        }
        let policies = case.policies.clone();
        let mut run = CaseRun { namespace, case, subject, policies, charges: Vec::new() };
        let difference = run.first_difference().await;
        run.reset_keys().await;
        report.add(difference);
    }
    report
}

/// Returns the key of `label`, a function of the three texts.
pub(crate) fn key(namespace: &str, case: &str, label: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    let text = format!("{}:{}:{namespace}{case}{label}", namespace.len(), case.len());
    hasher.writer().part("portcullis-testing", text.as_bytes());
    hasher.finish().expect("namespaces, names and labels are short")
}

/// A namespace that no other call returns, in this process or another.
pub(crate) fn fresh_namespace() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{call:x}", std::process::id(), since_epoch.as_nanos())
}

/// The state of a case that is being run.
struct CaseRun<'a> {
    namespace: &'a str,
    case: &'a Case,
    subject: &'a mut dyn SystemUnderTest,
    /// The policies with their current quotas.
    policies: Vec<Policy>,
    /// The key and the receipts of each step.
    charges: Vec<Charge>,
}

struct Charge {
    key: Key,
    receipts: Vec<Receipt>,
}

impl CaseRun<'_> {
    async fn first_difference(&mut self) -> Option<Failure> {
        for (index, step) in self.case.steps.iter().enumerate() {
            if let Err(mismatch) = self.step(step).await {
                return Some(mismatch.into_failure(self.case, index + 1, step));
            }
        }
        None
    }

    /// Resets the keys of the case, because the store may outlive the run. Keys that cannot be reset expire.
    async fn reset_keys(&mut self) {
        let end = self.case.steps.last().map_or(Timestamp::EPOCH, |step| step.at);
        let mut labels: Vec<&str> = self.case.steps.iter().map(|step| step.key.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut policies = self.case.policies.clone();
        policies.extend(self.case.steps.iter().filter_map(|step| match &step.action {
            Action::SetQuota { policy, to } => Some(with_strategy(&self.policies[*policy], *to)),
            _ => None,
        }));
        for label in labels {
            for policy in &policies {
                if policy.reads_overrides() {
                    self.drop_override(end, policy, label).await;
                }
                let _ = self.subject.reset(end, policy, key(self.namespace, self.case.name(), label)).await;
            }
        }
    }

    async fn drop_override(&mut self, end: Timestamp, policy: &Policy, label: &str) {
        let key = key(self.namespace, self.case.name(), label);
        for change in [OverrideChange::Unblock, OverrideChange::Grant(None)] {
            let _ = self.subject.change_override(end, policy, key, change).await;
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Mismatch> {
        let mut charge = Charge { key: self.key(&step.key), receipts: Vec::new() };
        match &step.action {
            Action::Check { costs, allow } => {
                let checked = self.subject.check(step.at, self.checks(charge.key, costs)).await?;
                compare::verdict(*allow, &checked.decision)?;
                step.expected.compare(step.at, &checked.decision)?;
                let charged = costs.iter().filter(|cost| *allow && **cost > 0).count();
                if self.subject.hands_out_receipts() && checked.receipts.len() != charged {
                    return Err(Mismatch::new("receipts", charged, checked.receipts.len()));
                }
                charge.receipts = checked.receipts;
            }
            Action::Refund { steps, policy, if_newest } => {
                let mut decisions = Vec::new();
                for receipt in self.take_receipts(steps, *policy) {
                    let receipt = if *if_newest { receipt.if_newest() } else { receipt };
                    decisions.push(self.subject.refund(step.at, receipt).await?);
                }
                step.expected.compare_all(step.at, &decisions)?;
            }
            Action::Settle { steps, policy, cost } => {
                let (mut decisions, mut uncharged) = (Vec::new(), 0);
                for receipt in self.take_receipts(steps, *policy) {
                    let settlement = self.subject.settle(step.at, receipt, *cost).await?;
                    decisions.push(settlement.decision);
                    charge.receipts.extend(settlement.receipt);
                    uncharged = settlement.uncharged.saturating_add(uncharged);
                }
                step.expected.compare_all(step.at, &decisions)?;
                compare_field("uncharged", step.expected.uncharged, uncharged)?;
            }
            Action::Renew { steps, policy } => {
                let held = self.renew(step.at, steps, *policy).await?;
                compare_field("held", step.expected.held, held)?;
                self.peek(step, self.charges[steps[0]].key).await?;
            }
            Action::Reset { policy } => {
                for (index, current) in self.policies.iter().enumerate() {
                    if policy.is_none_or(|policy| policy == index) {
                        self.subject.reset(step.at, current, charge.key).await?;
                    }
                }
                self.peek(step, charge.key).await?;
            }
            Action::SetQuota { policy, to } => {
                self.policies[*policy] = with_strategy(&self.policies[*policy], *to);
                self.peek(step, charge.key).await?;
            }
            Action::Override { policy, change, blocked_for } => {
                let policy = &self.policies[*policy];
                let block = self.subject.change_override(step.at, policy, charge.key, *change).await?;
                compare::block(*blocked_for, block.map(|block| block.length()))?;
                self.peek(step, charge.key).await?;
            }
        }
        self.charges.push(charge);
        Ok(())
    }

    /// Renews the permits of some steps. Returns how many of them are held.
    async fn renew(
        &mut self,
        now: Timestamp,
        steps: &[usize],
        policy: Option<usize>,
    ) -> Result<u64, StoreError> {
        let mut held = 0;
        for charge in steps.iter().filter_map(|step| self.charges.get(*step)) {
            for receipt in &charge.receipts {
                let current = self.policies.iter().find(|current| current.name() == receipt.policy().name());
                if policy.is_none_or(|index| self.policies[index].name() == receipt.policy().name()) {
                    let renewal = Renewal::of(receipt).with_policy(current.unwrap_or(receipt.policy()));
                    held += self.subject.renew(now, renewal).await?.held;
                }
            }
        }
        Ok(held)
    }

    /// Compares what is expected of a step that makes no decision itself.
    async fn peek(&mut self, step: &Step, key: Key) -> Result<(), Mismatch> {
        if step.expected.expects_decision() {
            let costs = vec![0; self.policies.len()];
            let checked = self.subject.check(step.at, self.checks(key, &costs)).await?;
            step.expected.compare(step.at, &checked.decision)?;
        }
        Ok(())
    }

    fn checks(&self, key: Key, costs: &[u64]) -> Checks {
        let mut each = self.policies.iter().zip(costs);
        let (first, cost) = each.next().expect("a case has at least one policy");
        each.fold(Checks::one(first.clone(), key, *cost), |checks, (policy, cost)| {
            checks.and(policy.clone(), key, *cost).expect("a case is within the bounds of a decision")
        })
    }

    /// Takes the receipts of some steps, joined into one per policy, with the current quotas of the policies.
    fn take_receipts(&mut self, steps: &[usize], policy: Option<usize>) -> Vec<Receipt> {
        let Self { policies, charges, case, .. } = self;
        let matches = |receipt: &Receipt| {
            policy.is_none_or(|policy| policies[policy].name() == receipt.policy().name())
        };
        let mut taken: Vec<Receipt> = Vec::new();
        for step in steps {
            let Some(charge) = charges.get_mut(*step) else { continue };
            let (matching, kept) = std::mem::take(&mut charge.receipts).into_iter().partition(matches);
            charge.receipts = kept;
            let matching: Vec<Receipt> = matching;
            for receipt in matching {
                let mut left = Some(receipt);
                for one in &mut taken {
                    left = left.and_then(|receipt| one.absorb(receipt));
                }
                taken.extend(left);
            }
        }
        // Without a change, a receipt keeps the quota of a grant.
        if *policies == case.policies {
            return taken;
        }
        taken.into_iter().map(|receipt| policies.iter().fold(receipt, Receipt::with_policy)).collect()
    }

    fn key(&self, label: &str) -> Key {
        key(self.namespace, self.case.name(), label)
    }
}

impl From<StoreError> for Mismatch {
    fn from(error: StoreError) -> Self {
        Self::new("answer", "a decision", format!("{:?}: {error}", error.kind()))
    }
}

impl crate::scenario::Expected {
    fn compare_all(&self, at: Timestamp, decisions: &[Decision]) -> Result<(), Mismatch> {
        decisive(decisions).map_or(Ok(()), |decision| self.compare(at, decision))
    }
}
