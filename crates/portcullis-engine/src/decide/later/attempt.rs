//! A request while it is decided: everything that may have to be awaited.

mod each;
mod exhausted;
mod join;
mod refuse;
mod window;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key, Receipt, StoreError};
use tokio::time::Instant;

use super::patience::Patience;
use super::refunds::{Keep, Refunds};
use super::shadows;
use crate::PolicySet;
use crate::charge::{Asked, LaterCharge};
use crate::decide::call::StoreCall;
use crate::decide::rejected::{deny, reject, store_failed};
use crate::decide::{Ask, Rejected};
use crate::engine::keyed_limit::WaitPermit;
use crate::engine::permits::HeldPermit;
use crate::engine::{CallerPolicies, Limits, report};
use crate::event::{EventKeys, EventKind, FoundKeys};

/// A request that is decided step by step.
///
/// # Cancel safety
///
/// If it is dropped, or a future of its methods, the charges of a call of the store that has not answered stay, and so do those that
/// were made, with two exceptions. Slots in queues are given up. During a look-up, all charges are refunded except those that
/// [stay](Ask::stays), and what is to be charged later under such a policy is charged.
pub struct Attempt {
    limits: Arc<Limits>,
    callers: CallerPolicies,
    keys: Option<Box<FoundKeys>>,
    /// The longest wait that its caller accepts.
    max_wait: Option<Duration>,
    /// The arrival of a request that has waited for a window or a permit.
    waits_since: Option<Instant>,
    patience: Patience,
    /// What was charged so far.
    charged: Option<Outcome>,
    /// Whether the store, or its fallback, has answered.
    is_answered: bool,
    /// When its slot in a queue begins.
    slot_at: Option<Instant>,
    stays: PolicySet,
    shadow: Vec<Asked>,
    later: Vec<LaterCharge>,
    held: Vec<HeldPermit>,
    permit: Option<WaitPermit>,
    is_looking_up: bool,
}

/// A request that is admitted, and what it owes.
#[derive(Debug)]
pub struct Admitted {
    /// `None` if no policy is enforced for it. Its decisions are degraded where the store could not answer.
    pub charged: Option<Outcome>,
    /// Whether the store, or its fallback, has answered. Otherwise every decision is degraded, and nothing was charged.
    pub is_answered: bool,
    /// The decisions of policies that are tried out.
    pub shadows: Vec<Decision>,
    /// The checks that they are about.
    pub tried: Vec<Asked>,
    /// What those have charged, by the indexes of the policies, of a request that has waited, or whose outcome may correct it.
    pub shadow_receipts: Vec<(usize, Receipt)>,
    /// What is charged when the outcome of the request is known.
    pub later: Vec<LaterCharge>,
    /// The permits that the request holds while it is in flight.
    pub held: Vec<HeldPermit>,
    /// The keys that were found, if an observer asks for fingerprints.
    pub keys: Option<Box<FoundKeys>>,
    /// Held until the request is let through.
    _permit: Option<WaitPermit>,
}

opaque_debug!(Attempt);

impl Admitted {
    /// Refunds all that the request was charged, also under policies that are tried out: it goes no further after its wait.
    pub fn refund(self, limits: &Arc<Limits>) -> Refunds {
        let tried = self.shadow_receipts.into_iter().map(|(_, receipt)| receipt);
        Refunds::start(limits, self.charged.as_ref(), None, Keep::Nothing).and(tried)
    }
}

impl Attempt {
    /// Begins to decide a request. `max_wait` is the longest wait that its caller accepts; `None` leaves it to the policies.
    pub fn new(limits: &Arc<Limits>, max_wait: Option<Duration>, patience: Patience) -> Self {
        Self {
            limits: Arc::clone(limits),
            callers: CallerPolicies::default(),
            keys: None,
            max_wait,
            waits_since: None,
            patience,
            charged: None,
            is_answered: false,
            slot_at: None,
            stays: PolicySet::default(),
            shadow: Vec::new(),
            later: Vec::new(),
            held: Vec::new(),
            permit: None,
            is_looking_up: false,
        }
    }

    /// The keys that were found for the request.
    pub fn keys(&self) -> Option<&FoundKeys> {
        self.keys.as_deref()
    }

    /// The quotas of the caller that are known so far.
    pub fn callers(&self) -> &CallerPolicies {
        &self.callers
    }

    /// What the request was charged so far.
    pub fn charged(&self) -> Option<&Outcome> {
        self.charged.as_ref()
    }

    /// The longest wait that the caller accepts.
    pub(super) fn max_wait(&self) -> Option<Duration> {
        self.max_wait
    }

    pub(super) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Checks and charges what is asked, and waits for windows. `call` is that of the store if it was called.
    ///
    /// # Errors
    ///
    /// Returns why the request is rejected. All that it was charged is refunded then.
    pub async fn check(&mut self, mut ask: Ask, call: Option<StoreCall>) -> Result<(), Rejected> {
        self.shadow.append(&mut ask.shadow);
        self.callers.clone_from(&ask.callers);
        match (&mut self.keys, ask.keys.take()) {
            (Some(all), Some(found)) => found.iter().for_each(|(index, key)| all.add(index, key)),
            (all, found) => *all = all.take().or(found),
        }
        match self.charge(&mut ask, call).await {
            Ok(charged) => {
                if let Some(charged) = charged {
                    self.add(&ask, charged);
                }
                Ok(())
            }
            Err(rejected) => Err(self.refunded(rejected).await),
        }
    }

    /// Adds what the checks of an ask have charged.
    fn add(&mut self, ask: &Ask, charged: Outcome) {
        self.stays = self.stays.union(ask.stays);
        self.slot_at = self.slot_at.max(delay_end(charged.decision()));
        self.charged = Some(match self.charged.take() {
            Some(first) => first.joined(charged).expect("both admit the request, by different policies"),
            None => charged,
        });
    }

    /// Returns what the request was charged, if it is not rejected.
    async fn charge(&mut self, ask: &mut Ask, call: Option<StoreCall>) -> Result<Option<Outcome>, Rejected> {
        let limits = Arc::clone(&self.limits);
        if limits.charges_later() && !ask.has_no_outcome {
            for asked in ask.take_later_costs(&limits) {
                match LaterCharge::new(&limits, asked, ask.callers.own(asked.index)) {
                    Some(later) => self.later.push(later),
                    None => return Err(self.too_many_unsettled(asked)),
                }
            }
        }
        if ask.enforced.is_empty() {
            return Ok(None);
        }
        let waits = ask.waits(&limits);
        if waits.in_queue {
            // The permit of a look-up would be counted beside the one for the queue.
            self.permit = None;
            // A call of the store would charge a slot, which other requests could not use until it is refunded.
            if self.cannot_wait(ask) {
                return Err(self.overloaded());
            }
        }
        let answer = match call {
            Some(call) => self.answer(call).await,
            None if waits.for_window => window::check(self, ask, waits.in_queue).await?,
            None => {
                let call = limits.check(ask.checks(&limits));
                self.answer(StoreCall::new(&limits, call, waits.in_queue)).await
            }
        };
        let (outcome, charged) = self.answered(ask, answer)?;
        if outcome.is_allowed() {
            return Ok(Some(outcome));
        }
        if let Some(charged) = charged {
            self.add(ask, charged);
        }
        Err(deny(&limits, outcome, ask, self.keys()))
    }

    pub(super) async fn answer(&self, call: StoreCall) -> Result<Outcome, StoreError> {
        if !call.is_ready() {
            self.patience.resume().await;
        }
        call.await
    }

    /// The answer of the store, by which a request is charged that it allows, and what was charged if nothing left denies it.
    #[expect(clippy::result_large_err, reason = "moved no further than its caller")]
    fn answered(
        &mut self,
        ask: &Ask,
        answer: Result<Outcome, StoreError>,
    ) -> Result<(Outcome, Option<Outcome>), Rejected> {
        let (limits, keys) = (&self.limits, self.keys.as_deref());
        report::answered(limits, answer.as_ref());
        let mut outcome = match answer {
            Ok(outcome) => {
                self.is_answered = true;
                outcome
            }
            // Open policies reject it as well, because an overload must not give a client a second budget.
            Err(error) if error.kind().is_overload() => {
                return Err(reject(limits, Rejected::Overloaded, keys));
            }
            Err(error) if ask.fails_closed => return Err(store_failed(limits, &error, ask, keys)),
            Err(error) => {
                let (checks, now) = (ask.checks(limits), limits.engine().now());
                return Ok((Outcome::unanswered(checks, now, error), None));
            }
        };
        report::charged(limits, outcome.checks().iter().as_slice(), outcome.decisions());
        self.held.extend(limits.engine().backlog.in_flight.hold(limits, &outcome));
        let charged = exhausted::deny(&mut self.later, ask, &mut outcome, limits);
        Ok((outcome, charged))
    }

    /// Prepares for a look-up. `key` counts the request among those that wait, if it was not charged by a key of its own. Returns
    /// whether it may wait.
    pub async fn look_up(&mut self, key: impl FnOnce() -> Option<Key>) -> bool {
        let own = self.charged.as_ref().and_then(|charged| charged.checks().narrowest_key());
        self.is_looking_up = self.wait_as(own.or_else(key));
        if self.is_looking_up {
            // Look-ups would cost nothing otherwise, as for the provisional charges.
            let stays = self.stays;
            self.later.iter_mut().for_each(|later| later.is_owed = stays.contains(later.index()));
            self.patience.resume().await;
        }
        self.is_looking_up
    }

    /// The look-up has found what follows.
    pub fn looked_up(&mut self) {
        self.is_looking_up = false;
        self.later.iter_mut().for_each(|later| later.is_owed = false);
    }

    /// Refunds a request that a look-up rejects, except what stays.
    pub async fn refund_looked_up(&mut self) {
        self.refund(Keep::Of(self.stays)).await;
    }

    /// Keeps what was charged, of a request that is rejected.
    pub fn keep(&mut self) {
        self.charged = None;
    }

    /// Rejects the request because too many requests wait, and refunds it.
    pub async fn reject_overloaded(&mut self) -> Rejected {
        let rejected = self.overloaded();
        self.refunded(rejected).await
    }

    /// Waits for the slot of the request, and checks the policies that are tried out.
    ///
    /// # Errors
    ///
    /// Returns why the request is rejected: its slot is too late, or too many requests wait.
    pub async fn admit(mut self) -> Result<Admitted, Rejected> {
        let limits = Arc::clone(&self.limits);
        let slot = match self.slot_at {
            Some(at) => Some(self.join(at).await?),
            None => None,
        };
        let mut tried = mem::take(&mut self.shadow);
        tried.sort_by_key(|asked| asked.index);
        let shadows = shadows::check(&limits, &self.callers, &tried, self.keys(), &self.patience).await;
        self.held.extend(shadows.held);
        let charged = match slot {
            None => self.charged.take(),
            Some(slot) => {
                self.patience.resume().await;
                let since = Instant::now();
                let charged = slot.turn().await;
                let kind = EventKind::Waited { policy: charged.decision().policy(), waited: since.elapsed() };
                limits.emit(kind, || EventKeys::found(self.keys.as_deref()));
                Some(charged)
            }
        };
        Ok(Admitted {
            charged,
            is_answered: self.is_answered,
            shadows: shadows.decisions,
            tried,
            shadow_receipts: shadows.receipts,
            later: mem::take(&mut self.later),
            held: mem::take(&mut self.held),
            keys: self.keys.take(),
            _permit: self.permit.take(),
        })
    }

    /// Counts the request among those that wait, by this key and in place of the permit that it has. Returns whether it may wait.
    pub(super) fn wait_as(&mut self, key: Option<Key>) -> bool {
        self.permit = None;
        self.permit = self.limits.engine().backlog.wait_limit.acquire(key);
        if self.permit.is_some() {
            self.patience.waits_long();
        } else {
            self.limits.emit(EventKind::TooManyWaiting, || EventKeys::found(self.keys()));
        }
        self.permit.is_some()
    }

    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Whether a request with a slot in a queue could not wait for it.
    fn cannot_wait(&self, ask: &Ask) -> bool {
        let (engine, checks) = (self.limits.engine(), ask.checks(&self.limits));
        let cannot_wait = engine.backlog.wait_limit.is_full(checks.narrowest_key())
            && engine.backlog.queues.has_waiters(&checks);
        if cannot_wait {
            self.limits.emit(EventKind::TooManyWaiting, || EventKeys::found(self.keys()));
        }
        cannot_wait
    }

    pub(super) fn overloaded(&self) -> Rejected {
        reject(&self.limits, Rejected::Overloaded, self.keys())
    }

    fn too_many_unsettled(&self, asked: Asked) -> Rejected {
        let policy = asked.policy(&self.limits).name().clone();
        self.limits.emit(EventKind::TooManyUnsettled { policy: &policy }, || EventKeys::found(self.keys()));
        reject(&self.limits, Rejected::Unsettled { policy, key: asked.key }, self.keys())
    }

    /// Refunds all that was charged.
    async fn refunded(&mut self, rejected: Rejected) -> Rejected {
        self.refund(Keep::Nothing).await;
        rejected
    }

    async fn refund(&mut self, keep: Keep) {
        let charged = self.charged.take();
        let refunds = Refunds::start(&self.limits, charged.as_ref(), self.slot_at, keep);
        if !refunds.are_over() {
            self.patience.resume().await;
        }
        refunds.await;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(charged) = self.charged.take() {
            let keep = if self.is_looking_up { Keep::Of(self.stays) } else { Keep::AllButSlots };
            drop(Refunds::start(&self.limits, Some(&charged), self.slot_at, keep));
        }
    }
}

/// When the slot of a request begins that was delayed just now.
pub(super) fn delay_end(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}
