//! Timelines that somebody wrote.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use portcullis_testing::{Pure, Report, Scenario, run_in};

/// What holds of any text that should be a scenario: it is none and the error says where, or it runs to its end and leaves
/// nothing behind.
pub fn scenario(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Scenario::parse(FILE, text) {
        Ok(scenario) => leaves_nothing_behind(&scenario),
        Err(error) => says_where(&error.to_string()),
    }
}

fn leaves_nothing_behind(scenario: &Scenario) {
    let mut pure = Pure::new();
    let first = report(scenario, &mut pure);
    let second = report(scenario, &mut pure);
    assert_eq!(first.to_string(), second.to_string());
    assert_eq!(first.passed() + first.failures().len(), scenario.cases().len());
}

fn says_where(message: &str) {
    assert!(message.starts_with(FILE) && !message.contains('\n'), "{message}");
}

/// Everything is there already: nothing is awaited.
fn report(scenario: &Scenario, pure: &mut Pure) -> Report {
    let run = pin!(run_in("fuzz", scenario.cases(), pure));
    match run.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(report) => report,
        Poll::Pending => unreachable!("the algorithm alone waits for nobody"),
    }
}

const FILE: &str = "fuzz.toml";
