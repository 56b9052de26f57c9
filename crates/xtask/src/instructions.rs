//! Instructions that a check in memory, a request through the layer and the client side of a call to Redis execute.
//!
//! Callgrind counts them in a simulated processor. So they do not depend on the speed of the machine or on other load, and a
//! regression that no time would show on a busy machine is found.
//!
//! It is called without a harness such as gungraun: every clean run of the tests would compile its runner, which has more than 150
//! dependencies, for two options and a line of output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

/// The counts of each case, per iteration, and what they depend on besides the code.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Counts {
    /// The version of the compiler, and the machine that it compiles for.
    compiler: String,
    instructions: BTreeMap<String, u64>,
}

/// Counts, and fails if a case executes more than the recorded instructions and [`TOLERANCE`].
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let Some(counts) = count(workspace)? else { return Ok(()) };
    let record = fs::read_to_string(workspace.root.join(RECORD));
    let record = record.with_context(|| format!("cannot read {RECORD}; `{WRITE}` writes it"))?;
    let record: Counts = serde_json::from_str(&record).with_context(|| format!("cannot parse {RECORD}"))?;
    print!("{}", table(&record, &counts));
    if record.compiler != counts.compiler {
        println!("NOT CHECKED: recorded with {}, and this is {}", record.compiler, counts.compiler);
        return Ok(());
    }
    let violations = violations(&record, &counts);
    ensure!(
        violations.is_empty(),
        "{RECORD} differs:\n    {}\n\nif that is intended, record the counts anew with `{WRITE}`",
        violations.join("\n    ")
    );
    Ok(())
}

/// Counts, and shows the result as Markdown. With `write` it becomes the record.
pub(crate) fn bench(workspace: &Workspace, write: bool) -> Result<String> {
    let Some(counts) = count(workspace)? else { return Ok("**NOT MEASURED: instructions**\n".to_owned()) };
    if write {
        let text = serde_json::to_string_pretty(&counts)? + "\n";
        fs::write(workspace.root.join(RECORD), text).with_context(|| format!("cannot write {RECORD}"))?;
        println!("recorded the counts in {RECORD}");
    }
    let rows = counts.instructions.iter().map(|(case, count)| format!("| {case} | {count} |\n"));
    Ok(format!(
        "`cargo xtask bench instructions`\n\n{}.\n\n| | instructions |\n|---|---:|\n{}",
        counts.compiler,
        rows.collect::<String>()
    ))
}

/// Returns nothing where there is no callgrind.
fn count(workspace: &Workspace) -> Result<Option<Counts>> {
    if !cfg!(target_os = "linux") {
        println!("NOT CHECKED: instructions are counted on Linux");
        return Ok(None);
    }
    let root = &workspace.root;
    tools::ensure_installed(tools::COUNTERS, root)?;
    Cmd::cargo()
        .args("build --quiet --locked --profile instructions --package portcullis-instructions")
        // Its own way to the clock ends with a fault in callgrind, which does not map the kernel's code for that.
        .env("RUSTFLAGS", "--cfg rustix_use_libc")
        .run(root)?;
    let folder = workspace.target("instructions");
    let profile = folder.join("callgrind.out");
    // The file of an earlier run would be kept beside the new one.
    if root.join(&profile).exists() {
        fs::remove_file(root.join(&profile))?;
    }
    let command = Cmd::new("valgrind")
        .args("--quiet --tool=callgrind --combine-dumps=yes")
        .word(&format!("--zero-before={MEASURED}"))
        .word(&format!("--dump-after={MEASURED}"))
        .word(&format!("--callgrind-out-file={}", profile.display()))
        .path(&folder.join("instructions"));
    println!("$ {command}");
    let output = command.read(root)?;
    let profile = fs::read_to_string(root.join(&profile)).context("callgrind has written no profile")?;
    let instructions = instructions(&output, &profile)?;
    Ok(Some(Counts { compiler: compiler(&Cmd::new("rustc").args("-vV").read(root)?), instructions }))
}

/// The counts, from the cases that the program has printed and the dumps of callgrind in the same order.
fn instructions(output: &str, profile: &str) -> Result<BTreeMap<String, u64>> {
    let times = output.lines().find_map(|line| line.strip_prefix("times "));
    let times: u64 = times.context("the program does not print how often it runs a case")?.parse()?;
    let cases: Vec<_> = output.lines().filter_map(|line| line.strip_prefix("case ")).collect();
    let (mut totals, mut is_of_case) = (Vec::new(), false);
    for line in profile.lines() {
        if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            is_of_case = trigger.starts_with("--dump-after=");
        } else if let Some(total) = line.strip_prefix("totals: ").filter(|_| is_of_case) {
            totals.push(total.trim().parse::<u64>()?);
        }
    }
    ensure!(
        times > 0 && !cases.is_empty() && cases.len() == totals.len(),
        "callgrind has counted {} of {} cases",
        totals.len(),
        cases.len()
    );
    Ok(cases.into_iter().map(str::to_owned).zip(totals.into_iter().map(|total| total / times)).collect())
}

/// The version and the host, as `rustc -vV` prints them.
fn compiler(version: &str) -> String {
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    format!("{}, {host}", version.lines().next().unwrap_or_default())
}

fn table(record: &Counts, counts: &Counts) -> String {
    let mut table = format!("{:<52} {:>9} {:>9}\n", "instructions", "recorded", "now");
    for (case, count) in &counts.instructions {
        let recorded = record.instructions.get(case).map_or_else(|| "-".to_owned(), u64::to_string);
        writeln!(table, "{case:<52} {recorded:>9} {count:>9}").expect("a string takes every text");
    }
    table
}

/// One line for each case that has become slower, or is in one of the two only.
fn violations(record: &Counts, counts: &Counts) -> Vec<String> {
    let (record, counts) = (&record.instructions, &counts.instructions);
    let cases: BTreeSet<_> = record.keys().chain(counts.keys()).collect();
    let violation = |case: &String| match (record.get(case), counts.get(case)) {
        (Some(before), Some(now)) if now * 100 > before * (100 + TOLERANCE) => Some(format!(
            "{case}: {now} instructions, recorded are {before}, and {TOLERANCE} % more are tolerated"
        )),
        (Some(_), None) => Some(format!("{case}: is recorded and no longer counted")),
        (None, Some(_)) => Some(format!("{case}: is not recorded")),
        _ => None,
    };
    cases.into_iter().filter_map(violation).collect()
}

/// Percent. Two runs of one program differ by the seeds of hash tables and the instants of the clock, and two machines by the
/// routines that the C library chooses for copying memory. A change of the code that matters is larger.
const TOLERANCE: u64 = 5;
/// Relative to the workspace.
const RECORD: &str = "crates/bench/instructions.json";
const WRITE: &str = "cargo xtask bench instructions --write";
/// The function whose calls are counted, by its exact name: callgrind confuses two options with the same pattern.
const MEASURED: &str = "instructions::measured";

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: &[(&str, u64)]) -> Counts {
        let instructions = instructions.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect();
        Counts { compiler: "rustc".to_owned(), instructions }
    }

    #[test]
    fn dumps_are_matched_with_cases_in_order() {
        let output = "times 10\ncase b\ncase a\n";
        let dump = |total: u64| {
            format!(
                "desc: Trigger: --dump-after={MEASURED}\nevents: Ir\nfn=(1)\n1 5\ntotals: {total}\n\npart: 2\n"
            )
        };
        let end = "desc: Trigger: Program termination\ntotals: 7\n";
        let profile = dump(708) + &dump(1_300) + end;
        let expected = counts(&[("a", 130), ("b", 70)]).instructions;
        assert_eq!(instructions(output, &profile).unwrap(), expected);
        let error = instructions(output, &(dump(1) + end)).unwrap_err().to_string();
        assert_eq!(error, "callgrind has counted 1 of 2 cases");
    }

    #[test]
    fn more_instructions_than_tolerated_are_a_violation() {
        let record = counts(&[("a", 100), ("b", 100), ("c", 100), ("gone", 1)]);
        let now = counts(&[("a", 105), ("b", 106), ("c", 50), ("new", 1)]);
        let violations = violations(&record, &now);
        let expected = [
            "b: 106 instructions, recorded are 100, and 5 % more are tolerated",
            "gone: is recorded and no longer counted",
            "new: is not recorded",
        ];
        assert_eq!(violations, expected);
    }

    #[test]
    fn the_compiler_is_a_version_and_a_host() {
        let version = "rustc 1.95.0 (1 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        assert_eq!(compiler(version), "rustc 1.95.0 (1 2026-04-14), x86_64-unknown-linux-gnu");
    }
}
