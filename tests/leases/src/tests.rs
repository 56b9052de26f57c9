use std::time::Duration;

use portcullis_core::{FixedWindow, Gcra, Quota, Refill, SlidingWindow, Strategy, TokenBucket};
use portcullis_testing::timeline::steps;
use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::Leases;
use super::model::NO_PERIOD;

/// Two units per tick, so that a lease outlasts its charge.
fn gcra(burst: u64) -> Strategy {
    Strategy::Gcra(Gcra::new(Quota::per_second(4).burst(burst)).unwrap())
}

/// All units at once, every two ticks.
fn refilled(limit: u64) -> Strategy {
    let bucket = TokenBucket::new(Quota::new(limit, Duration::from_secs(1), None).unwrap()).unwrap();
    Strategy::TokenBucket(bucket.refilled(Refill::Interval))
}

/// Windows of two ticks.
fn window(limit: u64) -> Strategy {
    Strategy::FixedWindow(FixedWindow::new(Quota::new(limit, Duration::from_secs(1), None).unwrap()).unwrap())
}

/// A window in which a lease of the second tick is live at the third one, when a part of its charge has left the window.
fn sliding(limit: u64, slots: u32) -> Strategy {
    let micros = if slots == 1 { 625_000 } else { 562_500 };
    sliding_in(limit, slots, Duration::from_micros(micros))
}

fn sliding_in(limit: u64, slots: u32, period: Duration) -> Strategy {
    let quota = Quota::new(limit, period, None).unwrap();
    Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap())
}

fn two_processes(quotas: Vec<Strategy>) -> Leases {
    let promise = quotas[0].limit();
    Leases {
        quotas,
        per_tick: 2,
        refill: 1,
        processes: 2,
        keys: 1,
        max: 2,
        ticks: 2,
        faults: 0,
        receipts: 0,
        promise,
    }
}

/// Explores all states of the second model, which is larger, with `cargo xtask test --all`, else of the first.
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
fn two_processes_keep_the_bound_of_interval_refill() {
    let model = Leases { per_tick: 3, refill: 2, ..two_processes(vec![refilled(3)]) };
    check(model.clone(), Leases { receipts: 1, ..model });
}

#[test]
fn fault_keeps_the_bound_of_interval_refill() {
    let one = Leases { per_tick: 3, refill: 2, faults: 1, ..two_processes(vec![refilled(3)]) };
    check(Leases { max: 1, ..one.clone() }, one.clone());
    check(Leases { processes: 1, receipts: 1, ..one.clone() }, Leases { processes: 1, receipts: 2, ..one });
}

#[test]
fn two_processes_keep_the_limit_of_a_window() {
    let model = two_processes(vec![window(3)]);
    check(model.clone(), Leases { receipts: 1, ..model });
}

#[test]
fn two_processes_keep_the_bound_of_a_sliding_window() {
    for slots in [1, 2] {
        let model = two_processes(vec![sliding(3, slots)]);
        check(model.clone(), Leases { receipts: 1, ..model });
    }
    // A slot for each tick: a lease ends before its charge leaves the window.
    let model = two_processes(vec![sliding_in(3, 2, Duration::from_secs(1))]);
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_no_discovery(NO_PERIOD);
}

#[test]
fn fault_keeps_a_sliding_windows_bound() {
    for slots in [1, 2] {
        let model = Leases { faults: 1, ..two_processes(vec![sliding(3, slots), sliding(2, slots)]) };
        check(Leases { ticks: 1, ..model.clone() }, model);
    }
}

#[test]
fn fault_keeps_the_bound_of_a_rate() {
    let model = Leases { ticks: 1, faults: 1, ..two_processes(vec![gcra(3), gcra(2)]) };
    check(Leases { max: 1, ..model.clone() }, model);
}

#[test]
fn fault_keeps_the_limit_of_a_window() {
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
fn refunds_of_one_process_keep_the_bound_of_a_sliding_window() {
    for slots in [1, 2] {
        let quotas = vec![sliding(3, slots), sliding(2, slots)];
        let model = Leases { processes: 1, receipts: 1, faults: 1, ..two_processes(quotas) };
        check(Leases { ticks: 1, ..model.clone() }, model);
    }
}

#[test]
fn two_keys_do_not_share_a_lease() {
    let model = Leases { processes: 1, keys: 2, ticks: 1, ..two_processes(vec![gcra(3)]) };
    check(Leases { max: 1, ..model.clone() }, model);
}

#[test]
fn search_finds_a_promise_that_is_too_low() {
    for quota in [gcra(3), window(3), sliding(3, 1), sliding(3, 2)] {
        let model = Leases { promise: 2, ..two_processes(vec![quota]) };
        let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        checker.assert_any_discovery(NO_PERIOD);
    }
}
