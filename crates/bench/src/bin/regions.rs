//! What it costs that regions keep a limit together, and how exact it is: `cargo xtask bench regions`.
//!
//! The program measures nothing: it simulates, see `portcullis_bench::regions`.
#![allow(clippy::cast_precision_loss, reason = "numbers of units and regions, far below 2^52")]

use clap::Parser as _;
use portcullis_bench::regions::{Choice, Cut, Expected, Figures, Report, Setup, Span};
use portcullis_bench::{BenchOptions, digits, markdown};

fn main() {
    let options = BenchOptions::parse();
    let setup = if options.quick { Setup { exact: 2_000, ..SETUP } } else { SETUP };
    let (calm, cut) = spans(&setup, if options.quick { 480 } else { 60 });
    let conditions = "A simulation: its figures do not depend on the machine.";
    println!("{}\n{}\n", options.heading("regions", conditions), described(&setup));
    let choices = CHOICES.map(|(_, choice)| choice);
    let (report, expected) = (setup.simulate(&choices, &calm), setup.expected(&calm, FEW));
    println!("## A day without cuts\n\n{}", errors(&setup, &report, &expected));
    println!("## What goes between regions\n\n{}", traffic(&setup, &report, &expected));
    let (report, expected) = (setup.simulate(&choices, &cut), setup.expected(&cut, FEW));
    println!(
        "## Minutes with a cut\n\nFive regions reach no other one in two of three minutes.\n\n{}",
        errors(&setup, &report, &expected)
    );
    println!(
        "The {} keys with most requests are simulated request by request, the others as expected numbers: that one of them has {FEW} \
         requests in a region and minute, below which no choice denies or buys, is expected {:.0e} times in a minute.",
        setup.exact, expected.missed,
    );
}

/// Minutes of the day without a cut, and with one.
fn spans(setup: &Setup, step: usize) -> (Vec<Span>, Vec<Span>) {
    let minutes = || (0..1_440).step_by(step);
    let calm = minutes().map(|minute| Span { minute, windows: 3, cut: None }).collect();
    let remote = setup.regions - 1;
    let cut = minutes().step_by(2).enumerate().map(|(number, minute)| {
        let first = 1 + number * 5 % (remote - 4);
        Span { minute, windows: 4, cut: Some(Cut { first, regions: 5, begin: 90, end: 210 }) }
    });
    (calm, cut.collect())
}

fn described(setup: &Setup) -> String {
    format!(
        "{} regions, {} million keys, a limit of {} units per key and minute, and {} requests per second on average over the day.",
        setup.regions,
        setup.keys / 1_000_000,
        setup.limit,
        setup.rate,
    )
}

/// Units per second.
fn errors(setup: &Setup, report: &Report, expected: &Expected) -> String {
    let per_second = |units: u64| units as f64 / report.seconds as f64;
    let row = |((name, choice), figures): (&(&str, Choice), &Figures)| {
        // A key that is too rare to be denied otherwise.
        let cut = if *choice == Choice::Central { expected.cut } else { 0.0 };
        vec![
            (*name).to_owned(),
            digits(per_second(figures.beyond)),
            format!("{} %", digits(100.0 * figures.worst as f64 / setup.limit as f64)),
            digits(per_second(figures.wrongly_denied) + cut),
            digits(per_second(figures.unused) + cut),
        ]
    };
    let rows: Vec<_> = CHOICES.iter().zip(&report.figures).map(row).collect();
    let header = [
        "units per second of all keys",
        "admitted beyond limits",
        "in the worst minute of a key, of its limit",
        "denied although central admits",
        "unused at the end of the minute",
    ];
    let total = expected.total - per_second(report.requests - report.admitted);
    format!(
        "A central store without delay, and never cut off, admits {} units per second.\n\n{}",
        digits(total),
        markdown(&header, &rows)
    )
}

fn traffic(setup: &Setup, report: &Report, expected: &Expected) -> String {
    let seconds = report.seconds as f64;
    let row = |((name, choice), figures): (&(&str, Choice), &Figures)| {
        let purchases = figures.calls as f64 / seconds;
        let minutes = seconds / 60.0;
        let others = (setup.regions - 1) as f64;
        let (calls, items, latency, states) = match choice {
            Choice::Central | Choice::CentralOrLocal => {
                (expected.remote, expected.remote, true, expected.active)
            }
            Choice::Shares => (0.0, 0.0, false, expected.active_in_regions),
            Choice::Leases { .. } => {
                let bought = (figures.bought + figures.buyers) as f64 / minutes;
                (purchases, purchases, false, expected.active_in_regions + bought)
            }
            Choice::Reports => unreachable!("has no row"),
            Choice::Counters => {
                let pairs = setup.regions as f64 * others;
                (pairs, expected.changed * others, false, expected.active_in_regions * setup.regions as f64)
            }
        };
        let latency = if latency {
            format!("{} ms, {} ms", digits(expected.round_trip), digits(expected.p99))
        } else {
            "0".to_owned()
        };
        vec![(*name).to_owned(), digits(calls), digits(items), latency, digits(states / 1e6)]
    };
    // What reports cost depends on how those of different keys are put together.
    let has_row = |((_, choice), _): &(&(&str, Choice), &Figures)| *choice != Choice::Reports;
    let rows: Vec<_> = CHOICES.iter().zip(&report.figures).filter(has_row).map(row).collect();
    let header = [
        "",
        "calls per second between regions",
        "decisions, purchases or counters in them",
        "added to a decision: mean, p99",
        "millions of states",
    ];
    markdown(&header, &rows)
}

const SETUP: Setup =
    Setup { regions: 20, keys: 100_000_000, rate: 200_000.0, window: 60, limit: 6_000, exact: 200_000 };
const CHOICES: [(&str, Choice); 7] = [
    ("central, denies in a cut", Choice::Central),
    ("central, the whole limit in each region in a cut", Choice::CentralOrLocal),
    ("fixed shares", Choice::Shares),
    ("leases, 20 % set aside", Choice::Leases { set_aside: 20 }),
    ("leases, 50 % set aside", Choice::Leases { set_aside: 50 }),
    ("counters sent each second", Choice::Counters),
    ("counters reported at a fifth of the limit, or each 5 s", Choice::Reports),
];
/// Half of what is set aside for a region where least is set aside.
const FEW: u64 = 30;
