//! What operators have done, and what requests have seen meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use portcullis_core::{Clock, Timestamp};

/// A clock that is one microsecond later each time it is read, as that of a server is.
#[derive(Clone)]
pub(super) struct Ticking(Arc<AtomicU64>);

impl Ticking {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000)))
    }

    pub(super) fn advance(&self, micros: u64) {
        self.0.fetch_add(micros, SeqCst);
    }

    pub(super) fn micros(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1, SeqCst) + 1)
    }
}

/// Before or after a call: of two marks the one with the lower number was made first, by whichever thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) micros: u64,
}

/// A call, from the mark before it to that after its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) begin: Mark,
    pub(super) end: Mark,
}

/// The overrides of a key, one after the other. At first it has none.
pub(super) struct History(Vec<(Span, Option<Part>)>);

/// A grant of a limit, or a block, for a number of microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) limit: u64,
    pub(super) length: u64,
}

impl History {
    pub(super) fn new() -> Self {
        Self(vec![(Span::default(), None)])
    }

    pub(super) fn push(&mut self, span: Span, part: Option<Part>) {
        self.0.push((span, part));
    }

    /// The limits that a decision may have been made under which began and ended in `span`. `None` is that without an override.
    pub(super) fn possible(&self, span: Span) -> BTreeSet<Option<u64>> {
        let mut possible = BTreeSet::new();
        for (index, (made, part)) in self.0.iter().enumerate() {
            let is_replaced = self.0.get(index + 1).is_some_and(|(by, _)| by.end.number < span.begin.number);
            if is_replaced || made.begin.number > span.end.number {
                continue;
            }
            match part {
                Some(Part { limit, length }) => {
                    if span.begin.micros <= made.end.micros + length {
                        possible.insert(Some(*limit));
                    }
                    if span.end.micros >= made.begin.micros + length {
                        possible.insert(None);
                    }
                }
                None => drop(possible.insert(None)),
            }
        }
        possible
    }
}

/// The charges of a key whose state is reset at any time.
#[derive(Debug, Default)]
pub(super) struct Restarted {
    charges: Vec<(Span, u64)>,
    last_reset: Span,
}

impl Restarted {
    pub(super) fn charged(&mut self, span: Span, units: u64) {
        self.charges.push((span, units));
    }

    pub(super) fn reset(&mut self, span: Span) {
        self.last_reset = span;
    }

    /// The fewest and the most units that are left: a charge during a reset may have been made before or after it.
    pub(super) fn bounds(&self) -> (u64, u64) {
        let sum = |is_left: &dyn Fn(&Span) -> bool| {
            self.charges.iter().filter(|(span, _)| is_left(span)).map(|(_, units)| units).sum()
        };
        let Span { begin, end } = self.last_reset;
        (sum(&|charge| charge.begin.number > end.number), sum(&|charge| charge.end.number > begin.number))
    }
}
