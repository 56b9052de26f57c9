//! Which slots a decision is spread over, and in which order they are asked.

use portcullis_core::{Checks, Key};
use smallvec::SmallVec;

use crate::keys::slot;

/// The checks of one slot, by their places in the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotGroup {
    pub(super) slot: u16,
    pub(super) places: SmallVec<[usize; 2]>,
}

/// Who is asked first, and who only if none of the first denies.
///
/// First are the slots of a caller's own keys that were denied lately: while they deny, a caller holds nothing that others
/// share. The usual caller was not denied lately, and all of its slots are asked at once.
pub(super) fn in_order(checks: &Checks, denied_lately: impl Fn(Key) -> bool) -> [Vec<SlotGroup>; 2] {
    let key_of = |place: usize| checks.iter().nth(place).map(|check| check.key);
    let is_first = |part: &SlotGroup| {
        let mut own = part.places.iter().filter_map(|place| key_of(*place)).filter(|key| !key.is_shared());
        own.any(&denied_lately)
    };
    let (first, rest): (Vec<_>, Vec<_>) = parts(checks).into_iter().partition(is_first);
    if first.is_empty() { [rest, first] } else { [first, rest] }
}

fn parts(checks: &Checks) -> Vec<SlotGroup> {
    let mut parts: Vec<SlotGroup> = Vec::new();
    for (place, check) in checks.iter().enumerate() {
        let slot = slot(check.key);
        match parts.iter_mut().find(|part| part.slot == slot) {
            Some(part) => part.places.push(place),
            None => parts.push(SlotGroup { slot, places: SmallVec::from_slice(&[place]) }),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota, Secret};

    use super::*;
    use crate::store::tests::key;

    const EACH: Policy = Policy::fixed_window("each", Quota::per_week(9));
    const ALL: Policy = Policy::fixed_window("all", Quota::per_week(9));

    fn everybody() -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().shared_part("everybody", b"");
        hasher.finish().unwrap()
    }

    fn places(parts: &[SlotGroup]) -> Vec<&[usize]> {
        parts.iter().map(|part| part.places.as_slice()).collect()
    }

    #[test]
    fn own_keys_that_were_denied_lately_are_asked_first() {
        let [ada, on_route, grace] = [&["ada"][..], &["ada", "/"], &["grace"]].map(key);
        let checks = Checks::one(ALL, everybody(), 1).and(EACH, ada, 1).unwrap();
        let checks = checks.and(ALL, grace, 1).unwrap().and(EACH, on_route, 1).unwrap();
        let nobody = in_order(&checks, |_| false);
        assert_eq!((places(&nobody[0]), nobody[1].len()), (vec![&[0][..], &[1, 3], &[2]], 0));
        // A slot is asked as a whole: by one call.
        for denied in [ada, on_route] {
            let [first, rest] = in_order(&checks, |key| key == denied);
            assert_eq!((places(&first), places(&rest)), (vec![&[1, 3][..]], vec![&[0][..], &[2]]));
        }
        let [first, rest] = in_order(&checks, |key| key == ada || key == grace);
        assert_eq!((places(&first), places(&rest)), (vec![&[1, 3][..], &[2]], vec![&[0][..]]));
        // What all callers share is never denied because of one of them.
        let [first, rest] = in_order(&checks, |key| key == everybody());
        assert_eq!((first.len(), rest.len()), (3, 0));
    }
}
