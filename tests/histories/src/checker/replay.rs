//! Rule 4: the core reproduces the answers.

mod doubt;
mod search;
mod step;

use super::super::{Family, KeyId, Op};
use super::clock::Clock;
use super::{Loss, Violation};

use self::search::{Search, Verdict};

/// Whether there is an order in which the core gives the same answers; `Ok(false)` if too many calls are in doubt to decide.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> Result<bool, Violation> {
    let clock = Clock::of(ops);
    let mut answered: Vec<&Op> = ops.iter().copied().filter(|op| op.answer().is_some()).collect();
    answered.sort_by_key(|op| (clock.index(op), at(op)));
    let doubtful: Vec<&Op> = ops.iter().copied().filter(|op| op.is_in_doubt()).collect();
    // The search is incomplete for what a loss leaves of a log after a doubtful charge.
    let is_incomplete = key_id.family == Family::Log && !doubtful.is_empty() && !losses.is_empty();
    let search =
        |links, thorough| Search::new(key_id, &clock, &answered, &doubtful, losses, links, thorough).run();
    let mut verdict = search(0, false);
    if key_id.family == Family::Log && matches!(verdict, Verdict::Contradiction(_)) {
        verdict = search(MAX_LINKS, false);
    }
    let may_cancel = doubtful.iter().any(|op| op.correction().is_some());
    if may_cancel && matches!(verdict, Verdict::Contradiction(_)) {
        verdict = search(MAX_LINKS, true);
    }
    // A log shows the instants of its units, and has too many orders.
    let has_debt = ops.iter().any(|op| op.correction().is_some_and(|it| it.missing() > 0));
    let may_hide = has_debt && !doubtful.is_empty() && !may_cancel && key_id.family != Family::Log;
    if may_hide && matches!(verdict, Verdict::Contradiction(_)) {
        verdict = match search(0, true) {
            Verdict::Undecided => verdict,
            thorough => thorough,
        };
    }
    match verdict {
        Verdict::Consistent => Ok(true),
        Verdict::Undecided => Ok(false),
        Verdict::Contradiction(_) if is_incomplete => Ok(false),
        Verdict::Contradiction(furthest) => {
            let what = format!(
                "no order of the {} answers, {} calls in doubt and {} losses of state explains the answer of \
                 process {} `{}`",
                answered.len(),
                doubtful.len(),
                losses.len(),
                answered[furthest].process,
                answered[furthest],
            );
            Err(Violation::at(4, key_id, ops, answered[furthest].invoked, what))
        }
    }
}

fn at(op: &Op) -> u64 {
    op.answer().map_or(0, |answer| answer.at)
}

/// The longest chain of doubtful charges to look for: a key is in use for fewer periods of the log than this.
const MAX_LINKS: usize = 8;
