//! Decides the limits of a call together, in the store.

mod put_back;

use std::time::{Duration, Instant};

use portcullis::event::EventKind;
use portcullis::key::Key;
use portcullis::store::{Checks, Outcome};
use portcullis::{Decision, FailureMode, Limiter, Policy, Receipt, StoreError};
use portcullis_core::log::Outage;

use super::CallError;
use super::plan::{Plan, Role, Slot};
use super::verdict::{Figures, Limit, LimitStatus, Status, Verdict};

/// Decides calls with a limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decider<'a> {
    limiter: &'a Limiter,
    outage: &'a Outage,
    mode: FailureMode,
    charge_denied_hits: bool,
}

/// The hits of one key under one policy, of one descriptor or several that are equal.
#[derive(Debug)]
struct Item {
    policy: Policy,
    key: Key,
    role: Role,
    hits: u64,
    /// Whether any of them charges nothing, and asks whether something remains.
    asks: bool,
    slots: Vec<usize>,
}

/// What is known of the statuses so far.
struct Progress {
    statuses: Vec<Status>,
    /// Of limits that may deny, for metrics.
    decisions: Vec<Decision>,
    limits: Vec<Option<(Limit, Role)>>,
}

impl<'a> Decider<'a> {
    pub(super) fn new(
        limiter: &'a Limiter,
        outage: &'a Outage,
        mode: FailureMode,
        charge_denied_hits: bool,
    ) -> Self {
        Self { limiter, outage, mode, charge_denied_hits }
    }

    /// The policy with the failure mode of the service. If the policy cannot have it, calls fail while the store does.
    pub(super) fn with_mode(&self, policy: &Policy) -> Policy {
        let changed = policy.clone().try_on_store_failure(self.mode);
        changed.unwrap_or_else(|_| policy.clone().on_store_failure(FailureMode::Closed))
    }

    pub(super) async fn decide(&self, plan: &Plan) -> Result<Verdict, CallError> {
        let (slots, quotas_deny) = (&plan.slots, plan.quotas_deny);
        let mut progress = Progress {
            statuses: slots
                .iter()
                .map(|slot| Status { is_unlimited: matches!(slot, Slot::Unlimited), ..Status::default() })
                .collect(),
            decisions: Vec::new(),
            limits: slots
                .iter()
                .map(|slot| slot.counted().map(|counted| (counted.limit.clone(), counted.role)))
                .collect(),
        };
        // A limit of 0 is exceeded by any hit, and nothing remains of it.
        let (mut denied, mut quotas_left) = (false, !quotas_deny);
        for (index, slot) in slots.iter().enumerate() {
            let Slot::Zero(counted) = slot else { continue };
            if counted.is_refund {
                continue;
            }
            progress.set(&[index], true, Some(Figures::default()));
            denied |= counted.role == Role::Enforced;
        }
        let [enforced, quotas, shadows] =
            [Role::Enforced, Role::Quota, Role::Shadow].map(|role| items(slots, role, false));
        let mut receipts = Vec::new();
        let mut full = Vec::new();
        let peek = denied;
        let outcome = match self.check(&enforced, peek).await {
            // The call is denied without the store.
            Err(_) if peek => None,
            answer => answer?,
        };
        if let Some(outcome) = outcome {
            for (item, decision) in matched(&enforced, &outcome) {
                let over = is_over(item, decision);
                denied |= over;
                progress.set(&item.slots, over, figures(decision));
                if over && !decision.is_allowed() && decision.remaining() > 0 {
                    full.push(item);
                }
            }
            if !peek {
                self.report(&enforced, &outcome);
            }
            progress.decisions.extend_from_slice(outcome.decisions());
            if outcome.is_remembered() {
                full.extend(self.show_left_out(&enforced, &outcome, &mut progress).await);
            }
            receipts.extend(outcome.into_receipts());
        }
        if !denied && !quotas.is_empty() {
            match self.charge_each(&quotas, &mut progress, &mut receipts).await {
                Ok(over) => quotas_left |= over < quotas.len(),
                Err(error) => {
                    self.refund(receipts, &mut progress, &enforced).await;
                    return Err(error.into());
                }
            }
        }
        denied |= quotas_deny && !quotas_left;
        if denied {
            self.refund(receipts, &mut progress, &enforced).await;
            if self.charge_denied_hits {
                for item in full {
                    let receipt = Receipt::blank(item.policy.clone(), item.key, portcullis::Timestamp::EPOCH);
                    // The call is denied anyway.
                    let Ok(settlement) = self.limiter.settle(receipt, item.hits).await else { continue };
                    let decisions = std::slice::from_ref(&settlement.decision);
                    let units = item.hits.saturating_sub(settlement.uncharged);
                    self.emit_of(item, EventKind::ChargedMore { decisions, units });
                }
            }
        } else {
            // A shadow limit that cannot be decided does not concern the call.
            let before = progress.decisions.len();
            let _ = self.charge_each(&shadows, &mut progress, &mut Vec::new()).await;
            progress.decisions.truncate(before);
            for role in [Role::Enforced, Role::Quota, Role::Shadow] {
                for item in items(slots, role, true) {
                    // Without an answer nothing is known of the limit, and the call is charged already.
                    let Ok(decision) = self.put_back(&item).await else { continue };
                    progress.set(&item.slots, false, figures(&decision));
                }
            }
        }
        let Progress { statuses, decisions, .. } = progress;
        Ok(Verdict { over: denied, statuses, decisions, response: None })
    }

    /// Shows the limits that a remembered denial leaves out, which are asked for what remains of them. Returns those that would deny, and
    /// have something left. Without an answer nothing is known of them, and the call is denied already.
    async fn show_left_out<'i>(
        &self,
        items: &'i [Item],
        denial: &Outcome,
        progress: &mut Progress,
    ) -> Vec<&'i Item> {
        let is_left_out = |item: &&Item| matched([*item], denial).next().is_none();
        let left_out: Vec<&Item> = items.iter().filter(is_left_out).collect();
        let mut full = Vec::new();
        let Some(checks) = checks(left_out.iter().copied(), true) else { return full };
        let Ok(Some(outcome)) = self.ask(checks).await else { return full };
        for (item, decision) in matched(left_out, &outcome) {
            let fits = item.hits <= decision.remaining() || !decision.is_metered();
            let over = !fits || is_over(item, decision);
            let wait = (over && item.hits <= decision.limit()).then_some(decision.reset_after());
            let shown = figures(decision).map(|figures| Figures { retry: figures.retry.or(wait), ..figures });
            progress.set(&item.slots, over, shown);
            if !fits && decision.remaining() > 0 {
                full.push(item);
            }
        }
        progress.decisions.extend_from_slice(outcome.decisions());
        full
    }

    /// Charges all items or none. `None` if there are none, or if the store cannot answer and the mode admits.
    async fn check(&self, items: &[Item], peek: bool) -> Result<Option<Outcome>, StoreError> {
        let Some(checks) = checks(items.iter(), peek) else { return Ok(None) };
        self.ask(checks).await
    }

    /// Asks the store, and reports whether it answers. `None` if it cannot and the mode admits.
    async fn ask(&self, checks: Checks) -> Result<Option<Outcome>, StoreError> {
        let policy = checks.iter().next().map(|check| check.policy.name().clone());
        let answer = self.limiter.store().check(checks).await;
        // The store was not called for a denial that is remembered, nor for a lease.
        let is_of_store =
            answer.as_ref().map_or(true, |outcome| !outcome.is_remembered() && !outcome.is_leased());
        match answer.as_ref().map_or_else(Some, Outcome::failure) {
            _ if !is_of_store => {}
            Some(error) if error.kind().is_overload() => {
                self.limiter.emit_event(EventKind::StoreOverloaded { error });
            }
            Some(error) => {
                self.limiter
                    .emit_event(EventKind::StoreFailed { error, is_new: self.outage.failed(Instant::now()) });
            }
            None if self.outage.answered(Instant::now) => self.limiter.emit_event(EventKind::StoreRecovered),
            None => {}
        }
        match answer {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) if self.admits(&error) => Ok(None),
            Err(error) => {
                let was_open = !error.kind().is_overload() && self.mode.is_open_after(Duration::ZERO);
                if was_open
                    && self.outage.outlast()
                    && let Some(policy) = &policy
                {
                    self.limiter.emit_event(EventKind::OpenForExpired { policy });
                }
                Err(error)
            }
        }
    }

    /// Charges each item that fits, and returns how many do not. All at once, and if that is denied, again without those that do not
    /// fit: each round leaves one out at least.
    async fn charge_each(
        &self,
        items: &[Item],
        progress: &mut Progress,
        receipts: &mut Vec<Receipt>,
    ) -> Result<usize, StoreError> {
        let mut left: Vec<&Item> = items.iter().collect();
        let mut over = 0;
        while let Some(checks) = checks(left.iter().copied(), false) {
            let Some(outcome) = self.ask(checks).await? else { break };
            let allowed = outcome.is_allowed();
            let mut denied = Vec::new();
            for (item, decision) in matched(left.iter().copied(), &outcome) {
                if allowed || !decision.is_allowed() {
                    let is_over = is_over(item, decision);
                    over += usize::from(is_over);
                    if item.role == Role::Shadow && !decision.is_allowed() {
                        self.emit_of(item, EventKind::ShadowWouldReject { decision });
                    }
                    progress.decisions.push(decision.clone());
                    progress.set(&item.slots, is_over, figures(decision));
                }
                if !decision.is_allowed() {
                    denied.push(item.slots.clone());
                }
            }
            if allowed {
                self.report(left.iter().copied(), &outcome);
                receipts.extend(outcome.into_receipts());
                break;
            }
            let before = left.len();
            left.retain(|item| !denied.contains(&item.slots));
            if left.len() == before {
                break;
            }
        }
        Ok(over)
    }

    /// Reports what was charged.
    fn report<'i>(&self, items: impl IntoIterator<Item = &'i Item, IntoIter: Clone>, outcome: &Outcome) {
        if !outcome.is_allowed() {
            return;
        }
        for (item, decision) in matched(items, outcome).filter(|(_, decision)| decision.is_metered()) {
            if item.hits > 0 {
                self.emit_of(item, EventKind::Charged { decision, units: item.hits });
            }
        }
    }

    /// Refunds what was charged for a call that is denied, and shows it.
    async fn refund(&self, receipts: Vec<Receipt>, progress: &mut Progress, enforced: &[Item]) {
        for receipt in receipts {
            let (policy, key, units) = (receipt.policy().clone(), receipt.key(), receipt.cost());
            // Without an answer the hits may stay charged: a refund whose fate is unknown is not repeated.
            let Ok(decision) = self.limiter.refund(receipt).await else { continue };
            if let Some(item) =
                enforced.iter().find(|item| item.key == key && item.policy.name() == policy.name())
            {
                progress.update(&item.slots, (&decision).into());
            }
            let refunded = EventKind::Refunded { decision: &decision, units };
            self.limiter.emit_event_about(refunded, || Some(Checks::one(policy, key, units)));
        }
    }

    /// Emits an event about the key of an item.
    fn emit_of(&self, item: &Item, kind: EventKind<'_>) {
        self.limiter.emit_event_about(kind, || Some(Checks::one(item.policy.clone(), item.key, item.hits)));
    }

    /// Whether calls are admitted although the store cannot answer.
    fn admits(&self, error: &StoreError) -> bool {
        let outage = error.outage().unwrap_or(Duration::ZERO);
        !error.kind().is_overload() && self.mode.is_open_after(outage)
    }
}

impl Progress {
    fn set(&mut self, slots: &[usize], over: bool, figures: Option<Figures>) {
        for &index in slots {
            let Some((limit, role)) = self.limits.get(index).cloned().flatten() else { continue };
            let is_shadow = role == Role::Shadow;
            if let Some(slot) = self.statuses.get_mut(index) {
                let limit = figures.map(|figures| LimitStatus { limit, figures });
                *slot = Status { over: over && !is_shadow, is_shadow, is_unlimited: false, limit };
            }
        }
    }

    /// Replaces the figures.
    fn update(&mut self, slots: &[usize], figures: Figures) {
        for &index in slots {
            if let Some(status) = self.statuses.get_mut(index).and_then(|status| status.limit.as_mut()) {
                status.figures = Figures { retry: status.figures.retry, ..figures };
            }
        }
    }
}

/// The limits of a role, those of equal descriptors together.
fn items(slots: &[Slot], role: Role, refunds: bool) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let Slot::Limit(counted, policy, key) = slot else { continue };
        if counted.role != role || counted.is_refund != refunds {
            continue;
        }
        let asks = counted.hits == 0;
        let same = items.iter_mut().find(|item| item.key == *key && item.policy.name() == policy.name());
        if let Some(item) = same {
            item.hits = item.hits.saturating_add(counted.hits);
            item.asks |= asks;
            item.slots.push(index);
        } else {
            let (policy, hits) = (policy.clone(), counted.hits);
            items.push(Item { policy, key: *key, role, hits, asks, slots: vec![index] });
        }
    }
    items
}

/// The checks of items. `None` if there are none. They differ in policy or key, there are at most as many as descriptors, and fixed
/// windows make no work, so all of them fit into a decision.
fn checks<'i>(mut items: impl Iterator<Item = &'i Item>, peek: bool) -> Option<Checks> {
    let hits = |item: &Item| if peek { 0 } else { item.hits };
    let first = items.next()?;
    let one = Checks::one(first.policy.clone(), first.key, hits(first));
    Some(items.fold(one, |checks, item| {
        let kept = checks.clone();
        checks.and(item.policy.clone(), item.key, hits(item)).unwrap_or(kept)
    }))
}

/// The items that an outcome has a decision of: a remembered denial has one.
fn matched<'i, 'o>(
    items: impl IntoIterator<Item = &'i Item, IntoIter: Clone>,
    outcome: &'o Outcome,
) -> impl Iterator<Item = (&'i Item, &'o Decision)> {
    let items = items.into_iter();
    outcome.checks().iter().zip(outcome.decisions()).filter_map(move |(check, decision)| {
        let mut items = items.clone();
        let same = |item: &&Item| item.key == check.key && item.policy.name() == check.policy.name();
        Some((items.find(same)?, decision))
    })
}

fn is_over(item: &Item, decision: &Decision) -> bool {
    !decision.is_allowed()
        || (item.asks && item.hits == 0 && decision.is_metered() && decision.remaining() == 0)
}

/// The figures of a decision, if it has any: a limit that is open counts nothing.
fn figures(decision: &Decision) -> Option<Figures> {
    decision.is_metered().then(|| decision.into())
}
