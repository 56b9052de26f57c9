//! A test of checks: each is an evaluation and what it requires.

use super::{Algorithm, Evaluation};
use crate::Timestamp;

/// Compares a check of a state with the steps that it consists of.
pub(crate) fn equals_evaluation_and_charge<A: Algorithm>(
    algorithm: &A,
    state: Option<&A::State>,
    now: Timestamp,
    cost: u64,
) {
    let (mut checked, mut expected) = (state.cloned(), state.cloned());
    let Evaluation { admitted, repair } = algorithm.evaluate(state, now, cost);
    if admitted && cost > 0 {
        algorithm.charge(&mut expected, now, cost);
    } else if repair {
        algorithm.advance(&mut expected, now);
    }
    let is_changed = admitted && cost > 0 || repair;
    assert_eq!(algorithm.check(&mut checked, now, cost), (admitted, is_changed));
    assert_eq!(checked, expected);
}
