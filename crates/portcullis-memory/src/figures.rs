//! The figures of stores.

pub(crate) mod stats;

use portcullis_core::store::{Figure, FigureUnit};

use crate::figures::stats::{MemoryPolicyStats, MemoryStats};

/// The names of the figures of a memory.
pub(crate) struct Names {
    policies: &'static str,
    entries: &'static str,
    bytes: &'static str,
    overflow_states: &'static str,
    overflowing_policies: &'static str,
    overflowed_checks: &'static str,
    overrides: &'static str,
}

macro_rules! names {
    ($prefix:literal) => {
        Names {
            policies: concat!($prefix, "policies"),
            entries: concat!($prefix, "entries"),
            bytes: concat!($prefix, "bytes"),
            overflow_states: concat!($prefix, "overflow_states"),
            overflowing_policies: concat!($prefix, "overflowing_policies"),
            overflowed_checks: concat!($prefix, "overflowed_checks"),
            overrides: concat!($prefix, "overrides"),
        }
    };
}

impl Names {
    /// The names of a memory store.
    pub(crate) const STORE: Self = names!("");
    /// The names of the memory of a fallback, whose store may be a memory as well.
    pub(crate) const FALLBACK: Self = names!("fallback_");
}

/// Visits the figures of a memory: those of the whole, then those of each policy.
pub(crate) fn visit(
    names: &Names,
    (stats, policies): (&MemoryStats, &[MemoryPolicyStats]),
    visit: &mut dyn FnMut(Figure<'_>),
) {
    visit(Figure::gauge(names.policies, number(stats.policies), POLICIES));
    visit(Figure::gauge(names.overflowing_policies, number(stats.overflowing_policies), OVERFLOWING));
    let all = [stats.entries, stats.bytes, stats.overflow_states, stats.overrides];
    for figure in of_either(names, all, stats.overflowed_checks) {
        visit(figure);
    }
    for stats in policies {
        let own = [stats.entries, stats.bytes, stats.overflow_states, stats.overrides];
        for figure in of_either(names, own, stats.overflowed_checks) {
            visit(figure.of_policy(&stats.policy));
        }
    }
}

/// The figures that both the store and each of its policies have.
fn of_either(
    names: &Names,
    [entries, bytes, overflow_states, overrides]: [usize; 4],
    overflowed_checks: u64,
) -> [Figure<'static>; 5] {
    [
        Figure::gauge(names.entries, number(entries), ENTRIES),
        Figure::gauge(names.bytes, number(bytes), BYTES).in_unit(FigureUnit::Bytes),
        Figure::gauge(names.overflow_states, number(overflow_states), OVERFLOW_STATES),
        Figure::counter(names.overflowed_checks, overflowed_checks, OVERFLOWED_CHECKS),
        Figure::gauge(names.overrides, number(overrides), OVERRIDES),
    ]
}

pub(crate) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

const POLICIES: &str = "Policies that were registered and not forgotten since.";
const OVERFLOWING: &str = "Policies that have an overflow state.";
const ENTRIES: &str =
    "Stored states in memory, one per key and policy, including expired ones that were not swept yet.";
const BYTES: &str = "The most bytes that the states in memory take.";
const OVERFLOW_STATES: &str = "Stored states that keys beyond the capacity share.";
const OVERFLOWED_CHECKS: &str =
    "Checks, refunds and settlements whose key did not fit and that used a shared state.";
const OVERRIDES: &str =
    "Stored grants, blocks and counts of lock-outs, including expired ones that were not swept yet.";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use portcullis_core::store::{Checks, FigureKind, Store};
    use portcullis_core::{FailureMode, Policy, Quota, Secret};

    use crate::{Fallback, InstanceShare, MemoryStore};

    type Figures = BTreeMap<(String, Option<String>), u64>;

    fn figures(store: &dyn Store) -> Figures {
        let mut all = Figures::new();
        store.figures(&mut |figure| {
            let id = (figure.name.to_owned(), figure.policy.map(ToString::to_string));
            assert_eq!(all.insert(id, figure.value), None, "{} is not unique", figure.name);
            let is_counter =
                figure.name.ends_with("overflowed_checks") || figure.name == "fallback_decisions";
            assert_eq!(figure.kind == FigureKind::Counter, is_counter, "{}", figure.name);
            assert!(!figure.help.is_empty());
        });
        all
    }

    fn of(all: &Figures, name: &str, policy: Option<&str>) -> u64 {
        all[&(name.to_owned(), policy.map(str::to_owned))]
    }

    fn fill(store: &dyn Store, policy: &Policy, keys: u64) {
        store.register(policy).unwrap();
        for key in 0..keys {
            let mut hasher = Secret::published().hasher();
            hasher.writer().part("user", &key.to_be_bytes());
            let checks = Checks::one(policy.clone(), hasher.finish().unwrap(), 1);
            assert!(store.check(checks).into_ready().ok().unwrap().is_ok());
        }
    }

    const LOGIN: Policy = Policy::gcra("login", Quota::per_day(5)).allow_overrides();
    const SEARCH: Policy = Policy::fixed_window("search", Quota::per_day(5));

    #[test]
    fn figures_are_stats_of_store_and_policies() {
        let store = MemoryStore::builder().capacity(8).build();
        fill(&store, &LOGIN, 8);
        fill(&store, &SEARCH, 11);
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", b"ada");
        let blocked = store.block(&LOGIN, hasher.finish().unwrap(), Duration::from_secs(60));
        assert_eq!(blocked.into_ready().ok().unwrap(), Ok(()));

        let (all, stats) = (figures(&store), store.stats());
        assert!(stats.overflowed_checks >= 3 && stats.overrides == 1, "{stats:?}");
        assert_eq!(of(&all, "policies", None), 2);
        assert_eq!(of(&all, "overflowing_policies", None), stats.overflowing_policies as u64);
        for policy in store.policy_stats() {
            let name = Some(policy.policy.as_str());
            let values = ["entries", "bytes", "overflow_states", "overflowed_checks", "overrides"];
            let values = values.map(|figure| of(&all, figure, name));
            let expected = [policy.entries, policy.bytes, policy.overflow_states];
            assert_eq!(values[..3], expected.map(|value| value as u64));
            assert_eq!(values[3..], [policy.overflowed_checks, policy.overrides as u64]);
        }
        for name in ["entries", "bytes", "overflow_states", "overflowed_checks", "overrides"] {
            let sum = of(&all, name, Some("login")) + of(&all, name, Some("search"));
            assert_eq!(of(&all, name, None), sum, "{name}");
        }
        let share = InstanceShare::new(store, 1);
        assert_eq!(figures(&share), all);
    }

    #[test]
    fn policies_of_one_name_are_reported_as_one() {
        let store = MemoryStore::new();
        fill(&store, &SEARCH, 3);
        fill(&store, &Policy::fixed_window("search", Quota::per_hour(5)), 2);
        let all = figures(&store);
        assert_eq!((of(&all, "policies", None), of(&all, "entries", Some("search"))), (2, 5));
    }

    #[test]
    fn fallback_reports_its_store_and_memory() {
        let store = Fallback::new(MemoryStore::new());
        fill(&store, &SEARCH.on_store_failure(FailureMode::local(2)), 4);
        let all = figures(&store);
        let entries = ["entries", "fallback_entries"].map(|name| of(&all, name, None));
        assert_eq!((entries, of(&all, "fallback_entries", Some("search"))), ([4, 0], 0));
        assert_eq!((of(&all, "fallback_policies", None), of(&all, "fallback_active", None)), (1, 0));
    }
}
