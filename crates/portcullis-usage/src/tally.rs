//! What the numbers of a response make together.

use crate::reader::UsageReader;

/// What a response was found to use so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Count {
    /// The response states its usage, or that of what it has sent so far.
    Total(u64),
    /// Only a part of the usage is known, such as the prompt.
    AtLeast(u64),
}

/// The last number at each place.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Whether they are parts of a sum.
    adds: bool,
    /// The numbers, or at first the only one.
    last: [Option<u64>; PARTS],
    is_whole: bool,
}

impl Tally {
    pub(crate) fn new(reader: &UsageReader) -> Self {
        Self { adds: reader.adds(), last: [None; PARTS], is_whole: false }
    }

    /// Adds the number at a place.
    pub(crate) fn add(&mut self, place: usize, number: u64) {
        let part = if self.adds { place % PARTS } else { 0 };
        self.last[part] = Some(number);
        self.is_whole |= !self.adds || place == OUTPUT;
    }

    pub(crate) fn count(&self) -> Option<Count> {
        let known = self.last.iter().flatten().copied().reduce(u64::saturating_add)?;
        Some(if self.is_whole { Count::Total(known) } else { Count::AtLeast(known) })
    }
}

/// The parts of a sum.
const PARTS: usize = 4;
/// The place of what a whole response, or the end of a stream, says was put out.
const OUTPUT: usize = 3;
