//! Rule 4: the answers follow from each other.

mod doubt;
mod search;
mod step;

use super::super::{Family, KeyId, Op};
use super::clock::Clock;
use super::{Loss, Violation};

use self::search::{Search, Verdict};

/// Whether there is an order in which the core gives the same answers; `Ok(false)` if there is too much in doubt to tell.
pub(super) fn check(spot: KeyId, ops: &[&Op], losses: &[Loss]) -> Result<bool, Violation> {
    let clock = Clock::of(ops);
    let mut answered: Vec<&Op> = ops.iter().copied().filter(|op| op.answer().is_some()).collect();
    answered.sort_by_key(|op| (clock.index(op), at(op)));
    let doubtful: Vec<&Op> = ops.iter().copied().filter(|op| op.is_in_doubt()).collect();
    // What a loss has left of a log after a doubtful charge is not searched for in full.
    let hidden = spot.family == Family::Log && !doubtful.is_empty() && !losses.is_empty();
    let search =
        |links, thorough| Search::new(spot, &clock, &answered, &doubtful, losses, links, thorough).run();
    let mut verdict = search(0, false);
    if spot.family == Family::Log && matches!(verdict, Verdict::Contradicts(_)) {
        verdict = search(MOST_LINKS, false);
    }
    let may_cancel = doubtful.iter().any(|op| op.correction().is_some());
    if may_cancel && matches!(verdict, Verdict::Contradicts(_)) {
        verdict = search(MOST_LINKS, true);
    }
    match verdict {
        Verdict::Follows => Ok(true),
        Verdict::TooMuchInDoubt => Ok(false),
        Verdict::Contradicts(_) if hidden => Ok(false),
        Verdict::Contradicts(furthest) => {
            let what = format!(
                "no order of the {} answers, {} calls in doubt and {} losses of state explains the answer of \
                 process {} `{}`",
                answered.len(),
                doubtful.len(),
                losses.len(),
                answered[furthest].process,
                answered[furthest],
            );
            Err(Violation::at(4, spot, ops, answered[furthest].invoked, what))
        }
    }
}

fn at(op: &Op) -> u64 {
    op.answer().map_or(0, |answer| answer.at)
}

/// Links of a chain of doubtful charges: a key is in use for fewer periods of the log than this.
const MOST_LINKS: usize = 8;
