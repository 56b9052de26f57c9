//! Requests that more policies match than one decision may have.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::iter;

use http::Method;
use portcullis_core::store::Checks;
use portcullis_core::{Policy, TooMuchWork};
use portcullis_tower::matching::{PathPattern, PatternSegment as Segment};

use super::RuleSet;
use super::matcher::Condition;
use super::matcher::host::HostPattern;
use super::rule::Rule;
use crate::fields::{Findings, join};

/// The most steps of a search. A file of this many overlapping patterns is refused.
const MAX_STEPS: usize = 5_000_000;
/// The most comparisons of methods and hosts. A thousand policies with different hosts and five methods need half of them.
const MAX_COMPARISONS: usize = 10_000_000;

/// Finds a request that more than [`Checks::MAX`] rules match, or rules with too much work for one decision.
///
/// Exact for paths that can be read in one way: it tries each method and host of the files, and one that is not there, and follows
/// all patterns of paths segment by segment. Combinations that cannot be too many are left out at once, which are nearly all.
pub(super) fn check(rules: &[Rule], findings: &Findings) {
    let mut search = Search { rules, steps: 0, comparisons: 0, path: String::new(), found: None };
    if search.excess((0..rules.len()).collect()).is_none() {
        return;
    }
    let other = Method::from_bytes(b"-").unwrap_or_default();
    let methods = conditions(rules).filter_map(|(_, condition)| condition.methods.as_ref()).flatten();
    let methods: HashSet<_> = methods.collect();
    let mut methods: Vec<_> = methods.into_iter().collect();
    methods.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    for method in iter::once(&other).chain(methods) {
        let of_method: Vec<_> =
            search.counted(conditions(rules), |one| &one.methods, |one| one.has_method(method));
        let are_few = search.excess(of_method.iter().map(|(rule, _)| *rule).collect()).is_none();
        if are_few && search.found.is_none() {
            continue;
        }
        let hosts = of_method.iter().filter_map(|(_, condition)| condition.hosts.as_ref()).flatten();
        let hosts: BTreeSet<_> = hosts.map(HostPattern::representative).collect();
        for host in iter::once(None).chain(hosts.iter().map(|host| Some(host.as_str()))) {
            let active =
                search.counted(of_method.iter().copied(), |one| &one.hosts, |one| one.has_host(host));
            let active = active.into_iter().map(|(rule, condition)| {
                let paths = condition.paths().map(PathPattern::segments).map(Left::Segments).collect();
                Active { rule, paths }
            });
            search.run(&active.collect::<Vec<_>>());
            if let Some(overlap) = search.found.take() {
                let method = Some(method).filter(|method| **method != other);
                overlap.report(rules, method, host, findings);
                return;
            }
        }
    }
}

fn conditions(rules: &[Rule]) -> impl Iterator<Item = (usize, &Condition)> {
    rules.iter().enumerate().flat_map(|(index, rule)| rule.matcher.any.iter().map(move |one| (index, one)))
}

/// A condition that the segments so far fulfil.
struct Active<'r> {
    rule: usize,
    /// What is left of its patterns, which all have to match. A condition without a pattern matches every path.
    paths: Vec<Left<'r>>,
}

#[derive(Clone, Copy)]
enum Left<'r> {
    Segments(&'r [Segment]),
    /// Whatever follows.
    Anything,
}

struct Search<'r> {
    rules: &'r [Rule],
    steps: usize,
    comparisons: usize,
    path: String,
    found: Option<Overlap>,
}

enum Overlap {
    Policies { path: String, set: RuleSet },
    Work { path: String, set: RuleSet, error: TooMuchWork },
    Unchecked,
}

impl<'r> Search<'r> {
    /// The conditions that hold, by comparisons with a list of each.
    fn counted<T>(
        &mut self,
        all: impl Iterator<Item = (usize, &'r Condition)>,
        list: impl Fn(&Condition) -> &Option<Vec<T>>,
        holds: impl Fn(&Condition) -> bool,
    ) -> Vec<(usize, &'r Condition)> {
        let mut comparisons = 0;
        let each = all.filter(|(_, condition)| {
            comparisons += 1 + list(condition).as_ref().map_or(0, Vec::len);
            holds(condition)
        });
        let all = each.collect();
        self.comparisons += comparisons;
        if self.comparisons > MAX_COMPARISONS {
            self.found = Some(Overlap::Unchecked);
        }
        all
    }

    /// Follows the patterns from here on: each literal of one of them, and a segment that is none of them.
    fn run(&mut self, active: &[Active<'r>]) {
        let rules_of = |active: &mut dyn Iterator<Item = &Active<'r>>| active.map(|one| one.rule).collect();
        if self.found.is_some() || self.excess(rules_of(&mut active.iter())).is_none() {
            return;
        }
        if self.steps > MAX_STEPS {
            self.found = Some(Overlap::Unchecked);
            return;
        }
        self.found = self.excess(rules_of(&mut active.iter().filter(|one| one.may_end())));
        if self.found.is_some() {
            return;
        }
        let mut by_literal: BTreeMap<&'r str, Vec<&Active<'r>>> = BTreeMap::new();
        let mut others = Vec::new();
        for one in active {
            match one.literal() {
                Some(literal) => by_literal.entry(literal).or_default().push(one),
                None => others.push(one),
            }
        }
        let literals = by_literal.iter().map(|(literal, ones)| (Cow::Borrowed(*literal), ones.as_slice()));
        let parameters = self.parameters(&others);
        for (segment, ones) in literals.chain(parameters.into_iter().map(|one| (one.into(), &[][..]))) {
            let length = self.path.len();
            self.path.push('/');
            self.path.push_str(&segment);
            self.steps += ones.len() + others.len();
            let next: Vec<_> = ones.iter().chain(&others).filter_map(|one| one.after(&segment)).collect();
            self.run(&next);
            self.path.truncate(length);
        }
    }

    /// Segments for the parameters that can follow, so that each set of them that one segment matches has one here: of such a set, the longest
    /// prefix and the longest suffix have those of all others at their ends.
    fn parameters(&mut self, active: &[&Active<'r>]) -> BTreeSet<String> {
        let ends: BTreeSet<_> = active.iter().flat_map(|one| one.parameters()).collect();
        let (prefixes, suffixes): (BTreeSet<_>, BTreeSet<_>) = ends.into_iter().unzip();
        self.steps = self.steps.saturating_add(prefixes.len().saturating_mul(suffixes.len()));
        if self.steps > MAX_STEPS {
            self.found = Some(Overlap::Unchecked);
            return BTreeSet::new();
        }
        let pairs = prefixes.iter().flat_map(|prefix| suffixes.iter().map(move |suffix| (prefix, suffix)));
        pairs.map(|(prefix, suffix)| format!("{prefix}x{suffix}")).collect()
    }

    /// Whether these are too many together.
    fn excess(&self, set: RuleSet) -> Option<Overlap> {
        let path = || if self.path.is_empty() { "/".to_owned() } else { self.path.clone() };
        if set.len() > Checks::MAX {
            return Some(Overlap::Policies { path: path(), set });
        }
        let policies: Vec<&Policy> =
            set.iter().filter_map(|at| self.rules.get(at)).map(Rule::policy).collect();
        let error = TooMuchWork::check(policies).err()?;
        Some(Overlap::Work { path: path(), set, error })
    }
}

impl<'r> Active<'r> {
    /// Whether it matches the path so far, or that with a slash at its end.
    fn may_end(&self) -> bool {
        self.paths.iter().all(|left| matches!(left, Left::Segments([] | [Segment::Rest]) | Left::Anything))
    }

    /// The literal that has to follow, if it is one.
    fn literal(&self) -> Option<&'r str> {
        self.paths.iter().find_map(|left| match left {
            Left::Segments([Segment::Literal(literal), ..]) => Some(&**literal),
            _ => None,
        })
    }

    /// What the segments that no pattern names begin and end with, if such can follow.
    fn parameters(&self) -> impl Iterator<Item = (&'r str, &'r str)> {
        self.paths.iter().filter_map(|left| match left {
            Left::Segments([Segment::One | Segment::Rest, ..]) => Some(("", "")),
            Left::Segments([Segment::Within { prefix, suffix }, ..]) => Some((&**prefix, &**suffix)),
            _ => None,
        })
    }

    fn after(&self, segment: &str) -> Option<Self> {
        let after = |left: &Left<'r>| match *left {
            Left::Anything | Left::Segments([Segment::Rest, ..]) => Some(Left::Anything),
            Left::Segments([first, after @ ..]) if first.admits(segment) => Some(Left::Segments(after)),
            Left::Segments(_) => None,
        };
        let paths = self.paths.iter().map(after).collect::<Option<_>>()?;
        Some(Self { rule: self.rule, paths })
    }
}

impl Overlap {
    fn report(self, rules: &[Rule], method: Option<&Method>, host: Option<&str>, findings: &Findings) {
        let request = |path: &str| {
            let method = method.map_or("a request", Method::as_str);
            // The host of a pattern begins with a space in place of a name.
            let host = host.map(|host| format!(" of host {}", host.replace(' ', "x"))).unwrap_or_default();
            format!("{method} for {path}{host}")
        };
        let last = |set: &RuleSet| set.iter().last().and_then(|index| rules.get(index));
        let (rule, message) = match &self {
            Self::Policies { path, set } => {
                let (count, most) = (set.len(), Checks::MAX);
                (last(set), format!("{count} policies match {}: one decision may have {most}", request(path)))
            }
            Self::Work { path, set, error } => {
                (last(set), format!("the policies that match {} are too much work: {error}", request(path)))
            }
            Self::Unchecked => {
                (rules.last(), "the patterns of paths overlap in too many ways to be checked".to_owned())
            }
        };
        if let Some(rule) = rule {
            findings
                .error(join("policy", rule.table()), rule.span(), message)
                .help("narrow the `match` of some policies, or join policies");
        }
    }
}
