//! The effect of a call on a state.

use portcullis_core::algorithm::State;
use portcullis_core::store::Position;
use portcullis_core::{Decision, Policy, Timestamp};

use super::super::super::{Answer, Call, Correction, Op};

/// Applies an answered call to the state. Returns whether the core gives the same answer.
pub(super) fn reproduces(policy: &Policy, op: &Op, state: &mut Option<State>) -> bool {
    let Some(answer) = op.answer() else { return false };
    let now = Timestamp::from_micros(answer.at);
    match &op.call {
        Call::Check(cost) => {
            let expected = check(policy, state, now, *cost, answer.charged);
            expected.map(|it| Answer { delay: answer.delay.and(it.delay), ..it }) == Some(*answer)
        }
        Call::Settle(correction) => {
            let uncharged = settle(policy, state, now, correction);
            let snapshot = policy.strategy().snapshot(state.as_ref(), now, 0, true);
            Answer { uncharged, ..Answer::new(&Decision::new(policy, now, snapshot), true) } == *answer
        }
        // The policies under which these are called are not replayed.
        _ => false,
    }
}

/// Returns the core's answer; `None` if the call was charged and the core denies it.
fn check(
    policy: &Policy,
    state: &mut Option<State>,
    now: Timestamp,
    cost: u64,
    charge: bool,
) -> Option<Answer> {
    let strategy = policy.strategy();
    let evaluation = strategy.evaluate(state.as_ref(), now, cost);
    if charge && !evaluation.admitted {
        return None;
    }
    strategy.apply_decision(state, now, cost, evaluation, charge);
    let snapshot = strategy.snapshot(state.as_ref(), now, cost, evaluation.admitted);
    let is_charged = charge && cost > 0;
    let position = if is_charged { strategy.position(state.as_ref(), now) } else { Position::default() };
    Some(Answer { position, ..Answer::new(&Decision::new(policy, now, snapshot), charge) })
}

/// Applies a call whose answer is unknown to the state.
pub(super) fn apply(policy: &Policy, state: &mut Option<State>, now: Timestamp, call: &Call) {
    match call {
        Call::Check(cost) => {
            let evaluation = policy.strategy().evaluate(state.as_ref(), now, *cost);
            policy.strategy().apply_decision(state, now, *cost, evaluation, evaluation.admitted);
        }
        Call::Settle(correction) => {
            settle(policy, state, now, correction);
        }
        _ => {}
    }
}

/// Applies a correction. Returns the units that were not charged because the debt has a limit.
fn settle(policy: &Policy, state: &mut Option<State>, now: Timestamp, correction: &Correction) -> u64 {
    if correction.missing() > 0 {
        return policy.strategy().force_charge(state, now, correction.missing()).uncharged;
    }
    policy.strategy().refund(state, now, correction.refund());
    0
}
