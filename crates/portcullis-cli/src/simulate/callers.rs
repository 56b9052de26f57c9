//! The callers with the most rejections, in bounded memory.

use std::collections::HashMap;

/// Counts by rule and caller. Exact up to a number of pairs; beyond it, pairs with few counts are dropped, and each count may be too
/// low by at most [`error`](Callers::error).
///
/// This is the summary of Misra and Gries: as soon as there are twice as many pairs as are kept, the count of the first one that is
/// not kept is subtracted from all of them. The default keeps none.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// By rule.
    counts: Vec<HashMap<Box<str>, u64>>,
    kept: usize,
    pairs: usize,
    error: u64,
}

impl Callers {
    /// Keeps at least `kept` pairs, and at most twice as many.
    pub fn new(kept: usize) -> Self {
        Self { counts: Vec::new(), kept: kept.max(1), pairs: 0, error: 0 }
    }

    /// Counts a caller under a rule.
    pub fn add(&mut self, rule: usize, caller: &str) {
        if self.counts.len() <= rule {
            self.counts.resize_with(rule + 1, HashMap::new);
        }
        let counts = &mut self.counts[rule];
        if let Some(count) = counts.get_mut(caller) {
            *count += 1;
            return;
        }
        counts.insert(caller.into(), 1);
        self.pairs += 1;
        if self.pairs >= self.kept.saturating_mul(2) {
            self.prune();
        }
    }

    /// By how much a count may be too low; zero if all are exact.
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The pairs of rule and caller with the highest counts.
    pub fn top(&self, most: usize) -> Vec<(usize, &str, u64)> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .enumerate()
            .flat_map(|(rule, counts)| counts.iter().map(move |(caller, count)| (rule, &**caller, *count)))
            .collect();
        all.sort_unstable_by(|one, other| {
            other.2.cmp(&one.2).then_with(|| (one.0, one.1).cmp(&(other.0, other.1)))
        });
        all.truncate(most);
        all
    }

    /// The number of callers under a rule that are kept.
    pub fn len(&self, rule: usize) -> usize {
        self.counts.get(rule).map_or(0, HashMap::len)
    }

    fn prune(&mut self) {
        let mut all: Vec<u64> = self.counts.iter().flat_map(HashMap::values).copied().collect();
        let (_, first_dropped, _) = all.select_nth_unstable_by(self.kept, |one, other| other.cmp(one));
        let first_dropped = *first_dropped;
        self.error += first_dropped;
        for counts in &mut self.counts {
            counts.retain(|_, count| {
                *count = count.saturating_sub(first_dropped);
                *count > 0
            });
        }
        self.pairs = self.counts.iter().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_below_the_bound() {
        let mut callers = Callers::new(10);
        for caller in ["a", "b", "a"] {
            callers.add(1, caller);
        }
        callers.add(0, "b");
        assert_eq!(callers.top(2), [(1, "a", 2), (0, "b", 1)]);
        assert_eq!((callers.error(), callers.len(0), callers.len(1), callers.len(9)), (0, 1, 2, 0));
    }

    #[test]
    fn frequent_callers_survive_a_flood_within_the_error() {
        let mut callers = Callers::new(50);
        for number in 0..10_000 {
            callers.add(0, &format!("once {number}"));
            if number % 10 == 0 {
                callers.add(0, "often");
            }
        }
        assert!(callers.len(0) < 100);
        let (_, caller, count) = callers.top(1)[0];
        assert_eq!(caller, "often");
        assert!(count <= 1_000 && count + callers.error() >= 1_000);
        assert!(callers.error() <= 11_000 / 51);
    }
}
