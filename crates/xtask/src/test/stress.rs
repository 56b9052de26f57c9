//! `cargo xtask test stress`: runs tests again and again on a machine that is busy and stands still now and then.
//!
//! A test that depends on time passes on a quiet machine and fails once in a hundred runs elsewhere. Here busy loops take the
//! processors, and the test program is stopped for a fifth of a second at random moments, as a virtual machine is.

mod list;
mod load;
mod record;
mod round;
mod table;

use std::collections::BTreeMap;
use std::thread;

use anyhow::{Result, ensure};
use clap::Args;

use self::list::List;
use self::load::BusyLoops;
use self::record::Record;
use self::round::Round;
use self::table::Table;
use super::programs::{self, Program};
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct StressOptions {
    /// Only the tests of these packages
    #[arg(long = "package", short, value_name = "NAME")]
    packages: Vec<String>,
    /// Runs of each test that waits, has a deadline or starts a process
    #[arg(long, default_value_t = 30)]
    runs: u32,
    /// Runs of all other tests
    #[arg(long, default_value_t = 5)]
    other_runs: u32,
    /// Loops that keep processors busy; as many as there are processors unless a number is given
    #[arg(long)]
    busy: Option<usize>,
    /// Tests that run at the same time
    #[arg(long)]
    threads: Option<usize>,
    /// Forgets the results of earlier runs instead of resuming
    #[arg(long)]
    fresh: bool,
    /// Writes the list of tests into the target directory, and runs nothing
    #[arg(long)]
    list: bool,
}

/// Runs the tests, one package at a time. An interrupted run resumes where it was, unless a program was built anew.
pub(crate) fn run(options: &StressOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.root.join(workspace.target("stress"));
    let mut programs = programs::built(&workspace, "--tests")?;
    let known: Vec<_> = programs.iter().map(|program| program.package.clone()).collect();
    for package in &options.packages {
        ensure!(known.contains(package), "no package with tests has the name {package}");
    }
    programs.retain(|program| options.packages.is_empty() || options.packages.contains(&program.package));
    let record = Record::open(&folder, options.fresh)?;
    let mut table = Table::default();
    for (package, programs) in by_package(programs) {
        println!("\n==> {package}");
        for program in programs {
            let list = List::of(&program, &folder)?;
            println!(
                "{}: {} tests, {} of them wait",
                program.by_hand(),
                list.all().len(),
                list.waiting().len()
            );
            if !options.list {
                let _busy = BusyLoops::start(options.busy.unwrap_or_else(processors));
                for round in options.rounds(&list) {
                    record.once(&program, &round, || round.run(&program, &folder, options.threads()))?;
                }
            }
            table.add(&program, &list, record.of(&program)?);
        }
    }
    println!("\n{table}");
    ensure!(!table.has_failures(), "tests have failed, see above");
    Ok(())
}

impl StressOptions {
    /// The rounds of a program: all its tests at first, then those that wait.
    fn rounds(&self, list: &List) -> Vec<Round> {
        let tests = |number: u32| match (number < self.runs, number < self.other_runs) {
            (true, true) => list.all(),
            (true, false) => list.waiting(),
            (false, _) => list.others(),
        };
        let rounds = (0..self.runs.max(self.other_runs)).map(|number| Round { number, tests: tests(number) });
        rounds.filter(|round| !round.tests.is_empty()).collect()
    }

    /// Four per processor: nearly all tests wait for something.
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| 4 * processors())
    }
}

fn by_package(programs: Vec<Program>) -> BTreeMap<String, Vec<Program>> {
    let mut packages = BTreeMap::<_, Vec<_>>::new();
    for program in programs {
        packages.entry(program.package.clone()).or_default().push(program);
    }
    packages
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}
