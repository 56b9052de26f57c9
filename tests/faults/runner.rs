//! The run of one fault, from the start of the workers to the check of their records.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use portcullis_histories::checker::{RunRecord, check};
use portcullis_histories::{Family, Op, monotonic_micros};

use crate::environment::{Environment, wait};
use crate::faults::Fault;
use crate::figures::Figures;
use crate::table::Row;
use crate::worker::DEADLINE;
use crate::workers::{PROCESSES, WorkerReport, Workers};

/// Runs a fault on new servers.
pub(crate) fn run(fault: &Fault, seed: u64) -> Result<Row> {
    println!("\n{}: {}", fault.name, fault.title);
    let mut environment = Environment::new((fault.servers)()?);
    let workers = Workers::start(&environment.servers.url(), seed, monotonic_micros(), fault.offsets)?;
    wait(1_000);
    (fault.inject)(&mut environment).with_context(|| format!("{} cannot be injected", fault.name))?;
    wait(2_500);
    let mut row = finish_run(fault.name, fault.title, workers, &environment)?;
    if fault.is_outage {
        check_outage(&mut row, &environment);
    }
    row.print();
    Ok(row)
}

/// Ends a run and checks the workers' records against the rules.
pub(crate) fn finish_run(
    name: &'static str,
    title: &'static str,
    mut workers: Workers,
    environment: &Environment,
) -> Result<Row> {
    let ops = workers.stop()?;
    let open = environment.connections(usize::MAX)?;
    let report = workers.drop_stores()?;
    let left = environment.connections(0)?;
    let of = |family: Family| -> BTreeSet<_> {
        ops.iter().map(|op| op.key_id).filter(|key_id| key_id.family == family).collect()
    };
    let permits = of(Family::InFlight);
    // After a step of the clock, permits are held for one lease from the next call on.
    environment.counts(permits.iter().copied())?;
    wait(Family::InFlight.period() / 1_000 + 50);
    let counts = of(Family::Count).into_iter().chain(of(Family::MixedCount));
    let counted = environment.counts(counts.chain(permits))?;
    let findings = check(&RunRecord { ops: &ops, losses: &environment.losses, counted: &counted });
    let (begin, end) = environment.fault_span.context("no fault was injected")?;
    let mut row = Row::new(name, title, Figures::new(&ops, begin, end), &findings);
    row.fail_if(
        ops.iter().filter(|op| op.answer().is_some()).count() < 100,
        "fewer than 100 calls were answered",
    );
    row.fail_if(report.tasks > 0, &format!("{} tasks are left", report.tasks));
    row.fail_if(left > 0, &format!("{left} connections are left"));
    let max = usize::from(PROCESSES) * MAX_CONNECTIONS;
    row.fail_if(open > max, &format!("{open} connections were open, more than {max}"));
    let permanent = environment.keys_without_expiry()?;
    row.fail_if(permanent > 0, &format!("{permanent} keys have no expiry"));
    println!("    the longest scheduling delay was {} us", report.stall);
    check_latency(&mut row, report, &ops);
    if row.has_failed() {
        row.add_logs(&workers.logs());
    }
    Ok(row)
}

fn check_latency(row: &mut Row, report: WorkerReport, ops: &[Op]) {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    // A call may wait for the probe that follows its deadline.
    let max = 2 * micros(DEADLINE) + micros(GRACE) + report.stall;
    let slow = ops.iter().filter(|op| op.latency() > max).count();
    let worst = ops.iter().map(Op::latency).max().unwrap_or_default();
    row.fail_if(slow > 0, &format!("{slow} calls took longer than {max} us, one {worst} us"));
    let normal = row.figures.normal_after;
    row.fail_if(normal.is_none(), "operation did not return to normal");
    row.fail_if(
        normal > Some(micros(NORMAL)),
        &format!("normal operation only after {} us", normal.unwrap_or_default()),
    );
}

/// During an outage only a few calls probe the servers, and all others fail at once, or are decided by the processes.
fn check_outage(row: &mut Row, environment: &Environment) {
    let (begin, end) = environment.fault_span.unwrap_or_default();
    let seconds = usize::try_from((end - begin).div_ceil(1_000_000)).unwrap_or(usize::MAX);
    let (waited, failed) = (row.figures.waited, row.figures.failed_later);
    let max = (seconds + 1) * PROBES_PER_SECOND * STORES * usize::from(PROCESSES);
    let problem = format!("{waited} of {failed} calls waited during the outage, more than {max}");
    row.fail_if(waited > max, &problem);
    row.fail_if(
        row.local.contains(&0),
        "no check of a leased policy, alone or mixed, was decided by a process",
    );
}

/// The time by which a call may exceed its deadline on a busy machine, in addition to the measured scheduling delay. A fault lasts 1.5 s or
/// more, so a call that waits for its end is still found.
const GRACE: Duration = Duration::from_secs(1);
/// The longest time from the last repair to normal operation.
const NORMAL: Duration = Duration::from_millis(2_500);
/// The probes of one store; each may wait until its deadline.
const PROBES_PER_SECOND: usize = 8;
/// The stores of one process.
const STORES: usize = 2;
/// The connections of one process to all nodes of a cluster, and again while some are renewed.
const MAX_CONNECTIONS: usize = 16;
