//! What is printed.

use std::fmt;

use portcullis_tests::faults::checker::Findings;

use crate::figures::Figures;

/// All faults, as Markdown.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// One fault and what came of it.
pub(crate) struct Row {
    name: &'static str,
    title: &'static str,
    pub(crate) figures: Figures,
    beyond: u64,
    freed: u64,
    replayed: usize,
    unclear: usize,
    problems: Vec<String>,
}

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of those that broke something.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        self.rows.iter().filter(|row| row.has_failed()).map(|row| row.name).collect()
    }
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        title: &'static str,
        figures: Figures,
        findings: &Findings,
    ) -> Self {
        let problems = findings.violations.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
        let Findings { beyond, freed, replayed, unclear, .. } = *findings;
        let mut row = Self { name, title, figures, beyond, freed, replayed, unclear, problems };
        let problem = format!("{unclear} of {} keys are too much in doubt to tell", row.keys());
        row.fail_if(freed == 0, "no refund has freed a unit");
        row.fail_if(unclear * 100 > row.keys() * MOST_UNCLEAR, &problem);
        row
    }

    pub(crate) fn fail(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn fail_if(&mut self, is_so: bool, problem: &str) {
        if is_so {
            self.fail(problem.to_owned());
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Adds the end of what the processes logged.
    pub(crate) fn add_logs(&mut self, logs: &str) {
        let lines: Vec<&str> = logs.lines().collect();
        let last = &lines[lines.len().saturating_sub(30)..];
        self.fail(format!("the processes logged, at last\n{}", last.join("\n")));
    }

    pub(crate) fn print(&self) {
        println!("{self}");
        println!(
            "    failures: {:?}; {} of {} keys too much in doubt",
            self.figures.kinds,
            self.unclear,
            self.keys()
        );
        println!("    {}; at most {} units were freed", self.figures.corrections, self.freed);
        println!(
            "    of {} failures after the first deadline {} were not told at once",
            self.figures.failed_later, self.figures.waited
        );
        self.problems.iter().for_each(|problem| println!("    FAILED: {problem}"));
    }

    fn keys(&self) -> usize {
        self.unclear + self.replayed
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | allowed | denied | failed | unknown | worst wait at first | later | half of the later failures \
             within | normal after | beyond the promise |"
        )?;
        writeln!(f, "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = &self.figures;
        let all = figures.allowed + figures.denied + figures.failed + figures.unknown;
        let share = |count: usize| match (count * 1_000).checked_div(all) {
            Some(mille) if count > 0 => format!("{}.{} %", mille / 10, mille % 10),
            _ => "-".to_owned(),
        };
        let time = |micros: Option<u64>| match micros {
            None => "-".to_owned(),
            Some(micros @ 0..1_000) => format!("{micros} µs"),
            Some(micros) => format!("{} ms", micros.div_ceil(1_000)),
        };
        write!(f, "| {} | {} | {} ", self.title, share(figures.allowed), share(figures.denied))?;
        write!(f, "| {} | {} ", share(figures.failed), share(figures.unknown))?;
        write!(
            f,
            "| {} | {} ",
            time(Some(figures.worst_at_first)),
            time(Some(figures.worst_later).filter(|micros| *micros > 0))
        )?;
        write!(f, "| {} | {} ", time(figures.median_failure), time(figures.normal_after))?;
        write!(
            f,
            "| {} |",
            if self.beyond == 0 { "no".to_owned() } else { format!("{} % of a burst", self.beyond) }
        )
    }
}

/// Of the broken rules.
const MOST_SHOWN: usize = 5;
/// In percent of the keys.
const MOST_UNCLEAR: usize = 5;
