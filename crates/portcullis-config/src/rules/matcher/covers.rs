//! Whether all requests of one matcher are among those of another.

use std::collections::HashSet;

use http::Method;

use super::host::{HostPattern, HostSet};
use super::{Condition, Matcher};

/// The comparisons that a check may make, so that many policies with long lists cannot keep it busy.
#[derive(Debug)]
pub(crate) struct Comparisons {
    made: usize,
    most: usize,
}

impl Comparisons {
    pub(crate) const fn at_most(most: usize) -> Self {
        Self { made: 0, most }
    }

    /// The number so far.
    #[cfg(test)]
    pub(crate) const fn made(&self) -> usize {
        self.made
    }

    /// Counts some. `None` if they are too many.
    fn add(&mut self, number: usize) -> Option<()> {
        self.made = self.made.saturating_add(number);
        (self.made <= self.most).then_some(())
    }
}

impl Matcher {
    /// Whether each request that `other` matches is one that this one matches. `None` if that takes too many comparisons.
    pub(crate) fn covers(&self, other: &Self, comparisons: &mut Comparisons) -> Option<bool> {
        // Policies beside each other often have the same list.
        let is_list = other.any.len() > 1;
        let same: HashSet<_> = self.any.iter().filter(|_| is_list).collect();
        comparisons.add(same.len() + other.any.len())?;
        for inner in &other.any {
            let mut is_covered = same.contains(inner);
            if is_covered {
                continue;
            }
            for outer in &self.any {
                if outer.covers(inner, comparisons)? {
                    is_covered = true;
                    break;
                }
            }
            if !is_covered {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl Condition {
    /// Takes time that grows with the sum of the lengths of the lists.
    fn covers(&self, inner: &Self, comparisons: &mut Comparisons) -> Option<bool> {
        let paths = || self.paths().all(|outer| inner.paths().any(|path| outer.covers(path)));
        comparisons.add(1 + self.values.len() * inner.values.len())?;
        if !paths() {
            return Some(false);
        }
        let is_named = (self.methods.is_none() || inner.methods.is_some())
            && (self.hosts.is_none() || inner.hosts.is_some())
            && self.values.iter().all(|value| inner.values.contains(value));
        if !is_named {
            return Some(false);
        }
        if let (Some(outer), Some(inner)) = (&self.methods, &inner.methods) {
            comparisons.add(outer.len() + inner.len())?;
            let outer: HashSet<_> = outer.iter().collect();
            let has =
                |method| outer.contains(method) || method == Method::HEAD && outer.contains(&Method::GET);
            if !inner.iter().all(has) {
                return Some(false);
            }
        }
        if let (Some(outer), Some(inner)) = (&self.hosts, &inner.hosts) {
            comparisons.add(outer.len() + inner.len())?;
            let outer = HostSet::new(outer);
            return Some(inner.iter().map(HostPattern::representative).all(|host| outer.matches(&host)));
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(methods: usize, hosts: usize) -> Matcher {
        let methods = (0..methods).map(|number| format!("M{number}").parse().unwrap()).collect();
        let hosts = (0..hosts).map(|number| format!("h{number}.example.com").parse().unwrap()).collect();
        Matcher {
            any: vec![Condition { methods: Some(methods), hosts: Some(hosts), ..Condition::default() }],
        }
    }

    #[test]
    fn long_lists_take_comparisons_by_their_sum() {
        let (large, larger) = (matcher(10_000, 10_000), matcher(20_000, 20_000));
        for (outer, inner, covers) in
            [(&larger, &large, true), (&large, &larger, false), (&large, &large, true)]
        {
            let mut comparisons = Comparisons::at_most(usize::MAX);
            assert_eq!(outer.covers(inner, &mut comparisons), Some(covers));
            assert!(comparisons.made() <= 60_002, "{}", comparisons.made());
        }
    }

    #[test]
    fn no_more_comparisons_are_made_than_allowed() {
        let one = matcher(1, 1);
        let many = Matcher { any: (0..100).flat_map(|_| one.any.clone()).collect() };
        let other = Matcher { any: (0..100).flat_map(|_| matcher(2, 2).any).collect() };
        let mut comparisons = Comparisons::at_most(50);
        assert_eq!(many.covers(&other, &mut comparisons), None);
        // Those before the last step, and it.
        assert!(comparisons.made() <= 50 + 102, "{}", comparisons.made());
        assert_eq!(many.covers(&other, &mut Comparisons::at_most(1_000)), Some(false));
    }

    #[test]
    fn hosts_below_a_name_are_covered() {
        let of = |host: &str| Matcher {
            any: vec![Condition { hosts: Some(vec![host.parse().unwrap()]), ..Condition::default() }],
        };
        for (outer, inner, covers) in [
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "*.b.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.b.example.com", "*.example.com", false),
            ("a.example.com", "*.example.com", false),
            ("a.example.com", "A.example.com", true),
        ] {
            let found = of(outer).covers(&of(inner), &mut Comparisons::at_most(100));
            assert_eq!(found, Some(covers), "{outer} {inner}");
        }
    }
}
