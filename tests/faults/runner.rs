//! One fault, from a quiet start to the check of the books.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use portcullis_tests::faults::checker::{Books, check};
use portcullis_tests::faults::{Family, Op, monotonic_micros};

use crate::crew::{PROCESSES, Remains, Workers};
use crate::faults::Fault;
use crate::field::{Field, wait};
use crate::figures::Figures;
use crate::table::Row;
use crate::worker::DEADLINE;

/// Runs a fault on servers of its own.
pub(crate) fn run(fault: &Fault, seed: u64) -> Result<Row> {
    println!("\n{}: {}", fault.name, fault.title);
    let mut field = Field::new((fault.servers)()?);
    let crew = Workers::start(&field.servers.url(), seed, monotonic_micros(), fault.offsets)?;
    wait(1_000);
    (fault.act)(&mut field).with_context(|| format!("{} cannot be done", fault.name))?;
    wait(2_500);
    let mut row = conclude(fault.name, fault.title, crew, &field)?;
    if fault.silences {
        judge_probes(&mut row, &field);
    }
    row.print();
    Ok(row)
}

/// Ends the run, and holds what everybody saw against the rules.
pub(crate) fn conclude(
    name: &'static str,
    title: &'static str,
    mut crew: Workers,
    field: &Field,
) -> Result<Row> {
    let ops = crew.stop()?;
    let busy = field.connections(usize::MAX)?;
    let remains = crew.let_go()?;
    let left = field.connections(0)?;
    let counted: BTreeSet<_> =
        ops.iter().map(|op| op.spot).filter(|spot| spot.family == Family::Count).collect();
    let counted = field.counts(counted.into_iter())?;
    let findings = check(&Books { ops: &ops, losses: &field.losses, counted: &counted });
    let (begin, end) = field.hurt.context("nothing was done")?;
    let mut row = Row::new(name, title, Figures::new(&ops, begin, end), &findings);
    row.fail_if(ops.iter().filter(|op| op.answer().is_some()).count() < 100, "hardly anybody was answered");
    row.fail_if(remains.tasks > 0, &format!("{} tasks are left", remains.tasks));
    row.fail_if(left > 0, &format!("{left} connections are left"));
    let most = usize::from(PROCESSES) * MOST_CONNECTIONS;
    row.fail_if(busy > most, &format!("{busy} connections were open, more than {most}"));
    let lasting = field.keys_without_expiry()?;
    row.fail_if(lasting > 0, &format!("{lasting} keys have no expiry"));
    println!("    the machine let nobody run for {} us at worst", remains.stall);
    judge_latency(&mut row, remains, &ops);
    if row.has_failed() {
        row.add_logs(&crew.logs());
    }
    Ok(row)
}

fn judge_latency(row: &mut Row, remains: Remains, ops: &[Op]) {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let most = micros(DEADLINE) + micros(GRACE) + remains.stall;
    let slow = ops.iter().filter(|op| op.latency() > most).count();
    row.fail_if(slow > 0, &format!("{slow} calls took longer than {most} us, one {} us", row.figures.worst));
    let normal = row.figures.normal_after;
    row.fail_if(normal.is_none(), "it did not become normal again");
    row.fail_if(
        normal > Some(micros(NORMAL)),
        &format!("normal only after {} us", normal.unwrap_or_default()),
    );
}

/// Once it is clear that nobody answers, a few calls find out whether that is still so, and nobody else waits.
fn judge_probes(row: &mut Row, field: &Field) {
    let (begin, end) = field.hurt.unwrap_or_default();
    let seconds = usize::try_from((end - begin).div_ceil(1_000_000)).unwrap_or(usize::MAX);
    let (waited, failed) = (row.figures.waited, row.figures.failed_later);
    let most = (seconds + 1) * PROBES_PER_SECOND * usize::from(PROCESSES);
    let problem = format!("{waited} of {failed} calls waited although nobody answered, more than {most}");
    row.fail_if(waited > most, &problem);
}

/// By how much a call may outlast its deadline on a machine that runs late, besides what is measured to be late.
const GRACE: Duration = Duration::from_millis(250);
/// How soon after the last repair it has to be normal again.
const NORMAL: Duration = Duration::from_millis(2_500);
/// Of one process; each may wait for a deadline.
const PROBES_PER_SECOND: usize = 8;
/// Of one process, to all nodes of a cluster and once more while some are renewed.
const MOST_CONNECTIONS: usize = 16;
