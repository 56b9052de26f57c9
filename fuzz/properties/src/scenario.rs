//! Scenario files.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use portcullis_testing::{Pure, Report, Scenario, run_in};

/// Checks the properties of any text as a scenario: it is an error that states its position, or it runs to its end and leaves
/// no state behind.
pub fn scenario(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Scenario::parse(FILE, text) {
        Ok(scenario) => leaves_no_state_behind(&scenario),
        Err(error) => states_its_position(&error.to_string()),
    }
}

fn leaves_no_state_behind(scenario: &Scenario) {
    let mut pure = Pure::new();
    let first = report(scenario, &mut pure);
    let second = report(scenario, &mut pure);
    assert_eq!(first.to_string(), second.to_string());
    assert_eq!(first.passed() + first.failures().len(), scenario.cases().len());
}

fn states_its_position(message: &str) {
    assert!(message.starts_with(FILE) && !message.contains('\n'), "{message}");
}

/// Runs the scenario. The algorithm alone is always ready.
fn report(scenario: &Scenario, pure: &mut Pure) -> Report {
    let run = pin!(run_in("fuzz", scenario.cases(), pure));
    match run.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(report) => report,
        Poll::Pending => unreachable!("the algorithm alone is always ready"),
    }
}

const FILE: &str = "fuzz.toml";
