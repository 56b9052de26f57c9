//! Properties of a state.

use portcullis_core::algorithm::State;
use portcullis_core::store::{Position, Refund, Run};
use portcullis_core::{Decision, Policy, Retry, Timestamp};

use crate::bytes::Bytes;
use crate::sane;

/// A state under a policy at an instant.
#[derive(Clone, Debug)]
pub(super) struct StateUnderTest {
    pub(super) policy: Policy,
    pub(super) state: Option<State>,
    pub(super) now: Timestamp,
}

impl StateUnderTest {
    /// Makes one step: time passes or steps back, units are charged, refunded or forced.
    pub(super) fn step(&mut self, bytes: &mut Bytes<'_>, period: u64) {
        let (kind, units) = (bytes.byte(), u64::from(bytes.u16()));
        self.now = Timestamp::from_micros(bytes.near(self.now.as_micros(), period));
        match kind % 4 {
            0 => self.check(units),
            1 => {
                // The high bits of the units are a remainder as well, of this quota or another.
                let position =
                    Position { micros: bytes.near(self.now.as_micros(), period), remainder: (units >> 12) };
                let earlier = Position { micros: position.micros / 2, ..position };
                let runs = [Run { units: 1, position: earlier }, Run { units, position }];
                if kind & 0x20 != 0 {
                    self.renew(&runs);
                }
                let refund = Refund::of(&runs);
                self.refund(if kind & 0x40 == 0 { refund } else { refund.if_newest() });
            }
            2 => self.force_charge(if kind & 0x80 == 0 { units } else { units << 16 }),
            _ => self.check(u64::from(kind >> 2) % self.policy.strategy().limit() + 1),
        }
    }

    /// All operations succeed, and their results agree.
    pub(super) fn check_properties(&self, cost: u64) {
        for cost in [0, 1, cost, self.policy.strategy().limit()] {
            let mut checked = self.clone();
            checked.check(cost);
        }
        let mut advanced = self.clone();
        let strategy = self.policy.strategy();
        strategy.advance(&mut advanced.state, self.now);
        assert_eq!(advanced.peek(), self.peek());
        let once = advanced.state.clone();
        strategy.advance(&mut advanced.state, self.now);
        assert_eq!(advanced.state, once);
        self.waits_are_exact(cost);
        self.expires_at_the_stated_time();
    }

    /// At one instant no more than the limit is admitted.
    pub(super) fn is_limited_at_one_instant(&mut self) {
        let limit = self.policy.strategy().limit();
        if limit <= MAX_CHECKS {
            for _ in 0..limit {
                self.check(1);
            }
            assert!(!self.evaluate(1), "{self:?}");
        }
    }

    fn evaluate(&self, cost: u64) -> bool {
        self.policy.strategy().evaluate(self.state.as_ref(), self.now, cost).admitted
    }

    fn decision(&self, cost: u64, admitted: bool) -> Decision {
        let snapshot = self.policy.strategy().snapshot(self.state.as_ref(), self.now, cost, admitted);
        let decision = Decision::new(&self.policy, self.now, snapshot);
        sane::decision(&decision, &self.policy, cost);
        decision
    }

    fn peek(&self) -> Decision {
        self.decision(0, true)
    }

    /// Checks as a store does. A charge lowers the remaining units by its cost.
    fn check(&mut self, cost: u64) {
        let strategy = *self.policy.strategy();
        let before = self.peek();
        let evaluation = strategy.evaluate(self.state.as_ref(), self.now, cost);
        assert_eq!(evaluation.admitted, cost <= before.remaining(), "{self:?} {cost}");
        let (former, transition) = (self.state.clone(), strategy.decide(self.state.as_ref(), self.now, cost));
        let changed =
            strategy.apply_decision(&mut self.state, self.now, cost, evaluation, evaluation.admitted);
        let after = self.decision(cost, evaluation.admitted);
        let used = if evaluation.admitted { cost } else { 0 };
        assert_eq!(after.remaining(), before.remaining() - used, "{self:?} {cost}");
        if used > 0 {
            self.is_restored_by_a_refund(used, before.remaining());
        }
        assert!(changed || self.is_unchanged(former), "{self:?} {cost}");
        assert_eq!((transition.admitted, transition.repaired), (evaluation.admitted, evaluation.repair));
        if changed {
            assert_eq!(transition.after, self.state);
        }
    }

    /// At the instant of a charge a refund undoes it.
    fn is_restored_by_a_refund(&self, units: u64, before: u64) {
        let mut refunded = self.clone();
        let strategy = self.policy.strategy();
        let runs = [Run { units, position: strategy.position(self.state.as_ref(), self.now) }];
        for refund in [Refund::of(&runs), Refund::of(&runs).if_newest()] {
            refunded.state.clone_from(&self.state);
            assert!(strategy.refund(&mut refunded.state, self.now, refund), "{self:?} {units}");
            assert_eq!(refunded.peek().remaining(), before, "{self:?} {units}");
        }
    }

    fn refund(&mut self, refund: Refund<'_>) {
        let (former, before) = (self.state.clone(), self.peek().remaining());
        let units: u64 = refund.runs().map(|run| run.units).sum();
        let changed = self.policy.strategy().refund(&mut self.state, self.now, refund);
        let after = self.peek().remaining();
        assert!(after >= before && after - before <= units, "{self:?} {refund:?} of {former:?}");
        assert!(changed || self.is_unchanged(former), "{self:?} {refund:?}");
    }

    /// A renewal changes neither the number of permits that are held nor another strategy.
    fn renew(&mut self, runs: &[Run]) {
        let (former, before) = (self.state.clone(), self.peek().remaining());
        let strategy = *self.policy.strategy();
        let renewed = strategy.renew(&mut self.state, self.now, runs);
        assert!(renewed.held <= runs.iter().map(|run| run.units).sum(), "{self:?} {runs:?}");
        assert_eq!(self.peek().remaining(), before, "{self:?} {runs:?} of {former:?}");
        assert!(renewed.changed || self.is_unchanged(former), "{self:?} {runs:?}");
        assert!(renewed.held == 0 || self.peek().reset_after() == strategy.window(), "{self:?} {runs:?}");
        let again = strategy.renew(&mut self.state, self.now, runs);
        assert_eq!(again.held, renewed.held, "{self:?} {runs:?}");
    }

    fn force_charge(&mut self, units: u64) {
        let (former, before) = (self.state.clone(), self.peek().remaining());
        let forced = self.policy.strategy().force_charge(&mut self.state, self.now, units);
        assert!(forced.uncharged <= units);
        assert_eq!(self.peek().remaining(), before.saturating_sub(units - forced.uncharged), "{former:?}");
        assert!(forced.uncharged == 0 || before.saturating_sub(units) == 0);
        assert!(forced.changed || self.is_unchanged(former), "{self:?} {units}");
    }

    /// Whether nothing has changed. A state that counts like an absent one may be removed.
    fn is_unchanged(&self, former: Option<State>) -> bool {
        let former = Self { state: former, ..self.clone() };
        self.state == former.state || (self.state.is_none() && former.peek().reset_after().is_zero())
    }

    /// A wait is enough, and one microsecond less is not.
    fn waits_are_exact(&self, cost: u64) {
        if !self.is_storable() {
            return;
        }
        let mut denied = self.clone();
        denied.check(u64::MAX);
        let peek = denied.peek();
        let limit = peek.limit();
        let remaining = |wait| denied.after(wait).map(|later| later.peek().remaining());
        let waits = [
            (peek.next_after(), (peek.remaining() + 1).min(limit)),
            (peek.reset_after(), limit),
            match denied.decision(cost, denied.evaluate(cost)).retry() {
                Some(Retry::After(wait)) => (wait, cost),
                _ => return,
            },
        ];
        for (wait, wanted) in waits {
            let Some(then) = remaining(wait) else { continue };
            assert!(then >= wanted, "{denied:?} {cost}: {then} after {wait:?}, not {wanted}");
            if let Some(shorter) = wait.checked_sub(MICROSECOND) {
                assert!(remaining(shorter) < Some(wanted), "{denied:?} {cost}: {wanted} before {wait:?}");
            }
        }
    }

    fn expires_at_the_stated_time(&self) {
        let Some(state) = &self.state else { return };
        let end = self.policy.strategy().expires_at(state);
        if self.is_storable() && end < Timestamp::MAX.as_micros() {
            let then = Self { now: self.now.max(Timestamp::from_micros(end)), ..self.clone() };
            assert_eq!(then.peek().remaining(), then.peek().limit(), "{self:?}");
        }
    }

    fn after(&self, wait: std::time::Duration) -> Option<Self> {
        let now = self.now.saturating_add(wait);
        (now < Timestamp::MAX).then(|| Self { now, ..self.clone() })
    }

    /// Whether a store could have stored its numbers: all of them are below 2^53.
    fn is_storable(&self) -> bool {
        let exact = |number: u64| number <= Timestamp::MAX.as_micros();
        match &self.state {
            None | Some(State::Log(_)) => true,
            Some(State::Tat(tat)) => exact(tat.micros) && exact(tat.remainder),
            Some(State::Window(window)) => exact(window.end) && exact(window.count),
            Some(State::CalendarCount(held)) => exact(held.window) && exact(held.end) && exact(held.count),
            Some(State::Permits(permits)) => exact(permits.expires_at()) && exact(permits.next()),
            Some(State::Slots(slots)) => exact(slots.end()) && slots.counts().iter().copied().all(exact),
        }
    }
}

const MAX_CHECKS: u64 = 300;
const MICROSECOND: std::time::Duration = std::time::Duration::from_micros(1);
