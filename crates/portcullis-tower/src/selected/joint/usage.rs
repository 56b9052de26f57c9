//! What requests use that are denied together.

use portcullis_core::store::{Check, Checks};

use super::member::Member;

/// The checks of requests that fit into one decision, with their units. What is free is left out. `None` if none is
/// included.
pub(super) fn checks(members: &[Member], includes: impl Fn(&Check) -> bool) -> Option<Checks> {
    let mut all: Vec<Check> = Vec::new();
    for member in members.iter().filter(|member| member.units > 0) {
        for ask in member.asks() {
            for asked in ask.enforced().iter().chain(ask.tried()).filter(|asked| asked.cost > 0) {
                let policy = ask.callers().policy(&member.config.limits, asked.index);
                let cost = asked.cost_of(member.units);
                match all.iter_mut().find(|check| check.is_about(policy.name(), asked.key)) {
                    Some(same) => same.cost = same.cost.saturating_add(cost),
                    None => all.push(Check { policy: policy.clone(), key: asked.key, cost }),
                }
            }
        }
    }
    all.retain(includes);
    let check = |index: usize| (&all[index].policy, all[index].key, all[index].cost);
    (!all.is_empty()).then(|| Checks::of(all.len(), check))
}
