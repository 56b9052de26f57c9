//! The slots of a decision, and the order in which they are queried.

use portcullis_core::store::{Check, Checks};
use portcullis_core::{Key, Strategy};
use smallvec::SmallVec;

use crate::protocol::keys::Slots;

/// The checks of one slot, by their indices in the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotGroup {
    pub(super) slot: u16,
    pub(super) indices: SmallVec<[usize; 2]>,
}

impl SlotGroup {
    pub(super) fn checks<'c>(&self, decision: &'c Checks) -> impl Iterator<Item = &'c Check> + Clone {
        self.indices.iter().filter_map(|index| decision.iter().nth(*index))
    }
}

/// The slots that are queried at once. The slots of later stages are queried only if all before them allow.
pub(super) type Stages = SmallVec<[Vec<SlotGroup>; 3]>;

/// Returns the slots in the order in which they are queried, at least one stage and none without slots.
///
/// The first are those of a client's own keys that were recently denied, the last those with limits on requests in flight. Usually there are
/// neither, and all slots are queried at once.
pub(super) fn query_order(checks: &Checks, slots: &Slots, recently_denied: impl Fn(Key) -> bool) -> Stages {
    let is_first = |group: &SlotGroup| {
        group.checks(checks).any(|check| !check.key.is_shared() && recently_denied(check.key))
    };
    let is_last = |group: &SlotGroup| {
        group.checks(checks).any(|check| matches!(check.policy.strategy(), Strategy::InFlight(_)))
    };
    let (first, rest): (Vec<_>, Vec<_>) = groups(slots).into_iter().partition(is_first);
    let (last, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_last);
    [first, rest, last].into_iter().filter(|stage| !stage.is_empty()).collect()
}

fn groups(slots: &Slots) -> Vec<SlotGroup> {
    let mut groups: Vec<SlotGroup> = Vec::new();
    for (index, slot) in slots.iter().copied().enumerate() {
        match groups.iter_mut().find(|group| group.slot == slot) {
            Some(group) => group.indices.push(index),
            None => groups.push(SlotGroup { slot, indices: SmallVec::from_slice(&[index]) }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota, Secret};

    use super::*;
    use crate::protocol::keys::slots;
    use crate::store::tests::{in_flight, key};

    const EACH: Policy = Policy::fixed_window("each", Quota::per_week(9));
    const ALL: Policy = Policy::fixed_window("all", Quota::per_week(9));

    fn shared_key() -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().shared_part("everybody", b"");
        hasher.finish().unwrap()
    }

    fn order(checks: &Checks, denied: impl Fn(Key) -> bool) -> Vec<Vec<Vec<usize>>> {
        let slots = slots(checks.iter().map(|check| check.key));
        let stages = query_order(checks, &slots, denied).into_iter();
        stages.map(|stage| stage.into_iter().map(|group| group.indices.to_vec()).collect()).collect()
    }

    #[test]
    fn recently_denied_own_keys_are_queried_first() {
        let [ada, on_route, grace] = [&["ada"][..], &["ada", "/"], &["grace"]].map(key);
        let checks = Checks::one(ALL, shared_key(), 1).and(EACH, ada, 1).unwrap();
        let checks = checks.and(ALL, grace, 1).unwrap().and(EACH, on_route, 1).unwrap();
        assert_eq!(order(&checks, |_| false), [[vec![0], vec![1, 3], vec![2]]]);
        // A slot is queried as a whole, by one call.
        for denied in [ada, on_route] {
            let stages = order(&checks, |key| key == denied);
            assert_eq!(stages, [vec![vec![1, 3]], vec![vec![0], vec![2]]]);
        }
        let stages = order(&checks, |key| key == ada || key == grace);
        assert_eq!(stages, [vec![vec![1, 3], vec![2]], vec![vec![0]]]);
        // A shared key that was denied does not change the order.
        assert_eq!(order(&checks, |key| key == shared_key()).len(), 1);
    }

    #[test]
    fn slots_with_requests_in_flight_are_queried_last() {
        let [ada, grace] = [&["ada"][..], &["grace"]].map(key);
        let checks = Checks::one(in_flight("permits", 3), ada, 1).and(EACH, grace, 1).unwrap();
        let checks = checks.and(EACH, ada, 1).unwrap().and(ALL, shared_key(), 1).unwrap();
        assert_eq!(order(&checks, |_| false), [vec![vec![1], vec![3]], vec![vec![0, 2]]]);
        let stages = order(&checks, |key| key == grace);
        assert_eq!(stages, [vec![vec![1]], vec![vec![3]], vec![vec![0, 2]]]);
        // The units of shared keys come before permits.
        let stages = order(&checks, |key| key == ada);
        assert_eq!(stages, [vec![vec![0, 2]], vec![vec![1], vec![3]]]);
        let alone =
            Checks::one(in_flight("permits", 3), ada, 1).and(in_flight("permits", 3), grace, 1).unwrap();
        assert_eq!(order(&alone, |_| false), [[vec![0], vec![1]]]);
    }
}
