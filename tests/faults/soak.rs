//! Faults at random, for a while.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use portcullis_tests::faults::{Random, monotonic_micros};

use crate::crew::Workers;
use crate::faults::{ALL, Fault, Scene};
use crate::field::{Field, wait};
use crate::runner::conclude;
use crate::table::Row;

/// Does everything that can happen in a scene, in an order that the seed decides.
pub(crate) fn run(scene: Scene, time: Duration, seed: u64) -> Result<Row> {
    println!("\n{}: {} s", scene.name(), time.as_secs());
    let faults: Vec<&Fault> = ALL.iter().filter(|fault| fault.scene == Some(scene)).collect();
    let mut random = Random::new(seed);
    let mut field = Field::new(scene.servers()?);
    let crew = Workers::start(&field.servers.url(), seed, monotonic_micros(), scene.offsets())?;
    wait(1_000);
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed() < time || done == 0 {
        let fault = random.one_of(&faults);
        println!("    {:>4} s  {}", start.elapsed().as_secs(), fault.name);
        (fault.act)(&mut field).with_context(|| format!("{} cannot be done", fault.name))?;
        done += 1;
        wait(500 + random.below(2_500));
    }
    wait(3_000);
    println!("{done} faults in {} s", start.elapsed().as_secs());
    let row = conclude(scene.name(), scene.title(), crew, &field)?;
    row.print();
    Ok(row)
}
