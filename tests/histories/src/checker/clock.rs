//! The clocks that answered: servers take over from each other, and their clocks may differ.

use super::super::Op;

/// The lead of the store's clock over the callers' clock, in segments of one server clock each.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The completion of its first answer.
    start: u64,
    /// Bounds of the lead, in microseconds.
    least: i128,
    most: i128,
}

impl Clock {
    /// Derives the segments from the answers.
    pub(super) fn of(ops: &[&Op]) -> Self {
        let mut answered: Vec<&Op> = ops.iter().copied().filter(|op| op.answer().is_some()).collect();
        answered.sort_by_key(|op| op.completed);
        let mut clock = Self::default();
        for op in answered {
            let (least, most) = lead(op);
            match clock.segments.last_mut() {
                Some(segment) if least <= segment.most + STEP && most >= segment.least - STEP => {
                    segment.least = segment.least.max(least);
                    segment.most = segment.most.min(most);
                }
                _ => clock.segments.push(Segment { start: op.completed, least, most }),
            }
        }
        clock
    }

    /// The instants at which another clock took over.
    pub(super) fn steps(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().skip(1).map(|segment| segment.start)
    }

    /// Whether a clock took over that is behind the one before it.
    pub(super) fn goes_back(&self) -> bool {
        self.segments.windows(2).any(|pair| pair[1].most < pair[0].least)
    }

    /// The index of the clock that answered, in the order in which the clocks took over.
    pub(super) fn index(&self, op: &Op) -> usize {
        self.segments.partition_point(|segment| segment.start <= op.completed).saturating_sub(1)
    }

    /// The earliest instant, on the given clock, at which a call made at `invoked` can have run.
    pub(super) fn earliest(&self, index: usize, invoked: u64) -> u64 {
        let lead = self.segments.get(index).map_or(0, |segment| segment.least) - SLEW;
        u64::try_from(i128::from(invoked) + lead).unwrap_or_default()
    }
}

fn lead(op: &Op) -> (i128, i128) {
    let at = i128::from(op.answer().map_or(0, |answer| answer.at));
    (at - i128::from(op.completed), at - i128::from(op.invoked))
}

/// The most that the lead can have changed since it was measured, in microseconds.
const SLEW: i128 = 10_000;
/// A change of the lead beyond any drift, in microseconds: another clock answers.
const STEP: i128 = 100_000;
