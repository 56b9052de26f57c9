//! Random faults for a given time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fastrand::Rng;
use portcullis_histories::monotonic_micros;

use crate::environment::{Environment, wait};
use crate::faults::{ALL, Fault, Topology};
use crate::runner::finish_run;
use crate::table::Row;
use crate::workers::Workers;

/// Injects the repeatable faults of a topology in random order, which the seed determines.
pub(crate) fn run(topology: Topology, time: Duration, seed: u64) -> Result<Row> {
    println!("\n{}: {} s", topology.name(), time.as_secs());
    let faults: Vec<&Fault> = ALL.iter().filter(|fault| fault.topology == Some(topology)).collect();
    let mut random = Rng::with_seed(seed);
    let mut environment = Environment::new(topology.servers()?);
    let workers = Workers::start(&environment.servers.url(), seed, monotonic_micros(), topology.offsets())?;
    wait(1_000);
    let start = Instant::now();
    let mut injected = 0;
    while start.elapsed() < time || injected == 0 {
        let fault = random.choice(&faults).expect("each topology has faults");
        println!("    {:>4} s  {}", start.elapsed().as_secs(), fault.name);
        (fault.inject)(&mut environment).with_context(|| format!("{} cannot be injected", fault.name))?;
        injected += 1;
        wait(500 + random.u64(..2_500));
    }
    wait(3_000);
    println!("{injected} faults in {} s", start.elapsed().as_secs());
    let row = finish_run(topology.name(), topology.title(), workers, &environment)?;
    row.print();
    Ok(row)
}
