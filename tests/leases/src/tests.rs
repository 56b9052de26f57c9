use std::time::Duration;

use portcullis_core::{FixedWindow, Gcra, Quota, Strategy};
use portcullis_testing::timeline::steps;
use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::Leases;
use super::model::NO_PERIOD;

/// Two units per tick, so that a lease outlasts its charge.
fn gcra(burst: u64) -> Strategy {
    Strategy::Gcra(Gcra::new(Quota::per_second(4).burst(burst)).unwrap())
}

/// Windows of two ticks.
fn window(limit: u64) -> Strategy {
    Strategy::FixedWindow(FixedWindow::new(Quota::new(limit, Duration::from_secs(1)).unwrap()).unwrap())
}

fn two_processes(quotas: Vec<Strategy>) -> Leases {
    let promise = quotas[0].limit();
    Leases { quotas, per_tick: 2, processes: 2, keys: 1, max: 2, ticks: 2, faults: 0, receipts: 0, promise }
}

/// Explores all states: of the second model, which is larger, with `cargo xtask test --all`, else of the first.
fn check(model: Leases, all: Leases) {
    let model = if steps() < 100_000 { model } else { all };
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} events deep", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn two_processes_keep_the_bound_of_a_rate() {
    let model = two_processes(vec![gcra(3)]);
    check(Leases { ticks: 1, ..model.clone() }, model);
}

#[test]
fn two_processes_that_refund_keep_the_bound_of_a_rate() {
    let model = Leases { ticks: 1, receipts: 1, ..two_processes(vec![gcra(3)]) };
    check(Leases { max: 1, ..model.clone() }, model);
}

#[test]
fn two_processes_keep_the_limit_of_a_window() {
    let model = two_processes(vec![window(3)]);
    check(model.clone(), Leases { receipts: 1, ..model });
}

#[test]
fn a_fault_keeps_the_bound_of_a_rate() {
    let model = Leases { ticks: 1, faults: 1, ..two_processes(vec![gcra(3), gcra(2)]) };
    check(Leases { max: 1, ..model.clone() }, model);
}

#[test]
fn a_fault_keeps_the_limit_of_a_window() {
    let model = Leases { faults: 1, ..two_processes(vec![window(3), window(2)]) };
    check(Leases { ticks: 1, ..model.clone() }, model);
}

#[test]
fn two_faults_and_refunds_of_one_process_keep_the_bound() {
    for (quotas, ticks) in [([gcra(3), gcra(2)], 1), ([window(3), window(2)], 2)] {
        let model = Leases { processes: 1, receipts: 1, ticks, ..two_processes(quotas.to_vec()) };
        check(Leases { faults: 1, ..model.clone() }, Leases { faults: 2, ..model });
    }
}

#[test]
fn two_keys_do_not_share_a_lease() {
    let model = Leases { processes: 1, keys: 2, ticks: 1, ..two_processes(vec![gcra(3)]) };
    check(Leases { max: 1, ..model.clone() }, model);
}

#[test]
fn search_finds_a_promise_that_is_too_low() {
    let model = Leases { promise: 2, ..two_processes(vec![gcra(3)]) };
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    checker.assert_any_discovery(NO_PERIOD);
}
