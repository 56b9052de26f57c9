//! Faults at random, for a while.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use portcullis_tests::faults::{Random, monotonic_micros};

use crate::act::failover;
use crate::crew::Crew;
use crate::faults::{ALL, Fault};
use crate::field::{Field, wait};
use crate::runner::conclude;
use crate::table::Row;

/// Does everything that can happen to a server and its replica, in an order that the seed decides.
pub(crate) fn run(minutes: u64, seed: u64) -> Result<Row> {
    println!("\nsoak: {minutes} minutes");
    let faults: Vec<&Fault> = ALL.iter().filter(|fault| fault.is_for_the_soak).collect();
    if faults.is_empty() {
        bail!("no fault is for the soak");
    }
    let mut random = Random::new(seed);
    let mut field = Field::new(failover::pair(None)?);
    let crew = Crew::start(&field.servers.url(), seed, monotonic_micros(), &[])?;
    wait(1_000);
    let start = Instant::now();
    let end = start + Duration::from_secs(minutes * 60);
    let mut done = 0;
    while Instant::now() < end || done == 0 {
        let fault = random.one_of(&faults);
        println!("    {:>4} s  {}", start.elapsed().as_secs(), fault.name);
        (fault.act)(&mut field).with_context(|| format!("{} cannot be done", fault.name))?;
        done += 1;
        wait(500 + random.below(2_500));
    }
    wait(3_000);
    println!("{done} faults in {minutes} minutes");
    let row = conclude("soak", "at random, for minutes", crew, &field)?;
    row.print();
    Ok(row)
}
