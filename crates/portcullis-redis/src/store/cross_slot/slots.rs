//! The slots of a decision, and the order in which they are queried.

use portcullis_core::Key;
use portcullis_core::store::Checks;
use smallvec::SmallVec;

use crate::protocol::keys::Slots;

/// The checks of one slot, by their indices in the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotGroup {
    pub(super) slot: u16,
    pub(super) indices: SmallVec<[usize; 2]>,
}

/// Returns the slots to query first, and those to query only if none of the first denies.
///
/// The first are the slots of a client's own keys that were recently denied: while they deny, a client holds no units of shared
/// keys. Usually no key was recently denied, and all slots are queried at once.
pub(super) fn query_order(
    checks: &Checks,
    slots: &Slots,
    recently_denied: impl Fn(Key) -> bool,
) -> [Vec<SlotGroup>; 2] {
    let key_of = |index: usize| checks.iter().nth(index).map(|check| check.key);
    let is_first = |group: &SlotGroup| {
        let mut own = group.indices.iter().filter_map(|index| key_of(*index)).filter(|key| !key.is_shared());
        own.any(&recently_denied)
    };
    let (first, rest): (Vec<_>, Vec<_>) = groups(slots).into_iter().partition(is_first);
    if first.is_empty() { [rest, first] } else { [first, rest] }
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
    use crate::store::tests::key;

    const EACH: Policy = Policy::fixed_window("each", Quota::per_week(9));
    const ALL: Policy = Policy::fixed_window("all", Quota::per_week(9));

    fn shared_key() -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().shared_part("everybody", b"");
        hasher.finish().unwrap()
    }

    fn indices(groups: &[SlotGroup]) -> Vec<&[usize]> {
        groups.iter().map(|group| group.indices.as_slice()).collect()
    }

    #[test]
    fn recently_denied_own_keys_are_queried_first() {
        let [ada, on_route, grace] = [&["ada"][..], &["ada", "/"], &["grace"]].map(key);
        let checks = Checks::one(ALL, shared_key(), 1).and(EACH, ada, 1).unwrap();
        let checks = checks.and(ALL, grace, 1).unwrap().and(EACH, on_route, 1).unwrap();
        let slots = slots(checks.iter().map(|check| check.key));
        let none_denied = query_order(&checks, &slots, |_| false);
        assert_eq!((indices(&none_denied[0]), none_denied[1].len()), (vec![&[0][..], &[1, 3], &[2]], 0));
        // A slot is queried as a whole, by one call.
        for denied in [ada, on_route] {
            let [first, rest] = query_order(&checks, &slots, |key| key == denied);
            assert_eq!((indices(&first), indices(&rest)), (vec![&[1, 3][..]], vec![&[0][..], &[2]]));
        }
        let [first, rest] = query_order(&checks, &slots, |key| key == ada || key == grace);
        assert_eq!((indices(&first), indices(&rest)), (vec![&[1, 3][..], &[2]], vec![&[0][..]]));
        // A shared key that was denied does not change the order.
        let [first, rest] = query_order(&checks, &slots, |key| key == shared_key());
        assert_eq!((first.len(), rest.len()), (3, 0));
    }
}
