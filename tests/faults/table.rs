//! The printed results.

use std::fmt;

use portcullis_histories::Family;
use portcullis_histories::checker::Findings;

use crate::figures::Figures;

/// The results of all faults, as a Markdown table.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// The result of one fault.
pub(crate) struct Row {
    name: &'static str,
    title: &'static str,
    pub(crate) figures: Figures,
    excess: u64,
    freed: u64,
    /// The checks of each leased family that were paid from leases.
    leased: [usize; Family::LEASED.len()],
    /// The checks of leased policies together with others that were paid from leases, and those of them that the others have denied.
    mixed: usize,
    undone: usize,
    /// The checks of leased policies that processes have decided by themselves, alone and together with others.
    pub(crate) local: [usize; 2],
    remembered: usize,
    permits: u64,
    renewed: u64,
    blocked: usize,
    granted: usize,
    resets: usize,
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

    /// The names of the faults that failed.
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
        let problems = findings.violations.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
        let Findings { excess, freed, permits, renewed, blocked, granted, resets, .. } = *findings;
        let Findings { undone, remembered, replayed, unclear, .. } = *findings;
        let of_family = |family: Family| findings.leased.get(&family).copied().unwrap_or_default();
        let mixed = Family::MIXED.into_iter().map(of_family).sum();
        let leased = Family::LEASED.map(of_family);
        let of_local = |is_mixed: bool| {
            let families =
                findings.local.iter().filter(|(family, _)| Family::MIXED.contains(family) == is_mixed);
            families.map(|(_, checks)| checks).sum()
        };
        let mut row = Self {
            name,
            title,
            figures,
            excess,
            freed,
            leased,
            mixed,
            undone,
            local: [of_local(false), of_local(true)],
            remembered,
            permits,
            renewed,
            blocked,
            granted,
            resets,
            replayed,
            unclear,
            problems,
        };
        let problem = format!("{unclear} of {} keys have too many calls in doubt to decide", row.keys());
        row.fail_if(freed == 0, "no refund has freed a unit");
        row.fail_if(leased.contains(&0), "no check of a leased policy was paid from a lease");
        row.fail_if(mixed == 0, "no check under several policies was paid from a lease");
        row.fail_if(undone == 0, "no policy without a lease has denied what was paid from one");
        row.fail_if(remembered == 0, "no denial was remembered");
        row.fail_if(permits == 0 || renewed == 0, "no permit was taken, or none was renewed");
        row.fail_if(blocked == 0, "no check was denied by a block");
        row.fail_if(granted == 0, "no check was made under a grant");
        row.fail_if(resets == 0, "no state was reset");
        row.fail_if(unclear * 100 > row.keys() * MAX_UNCLEAR, &problem);
        row
    }

    pub(crate) fn fail(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn fail_if(&mut self, condition: bool, problem: &str) {
        if condition {
            self.fail(problem.to_owned());
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Adds the last lines of the workers' logs as a problem.
    pub(crate) fn add_logs(&mut self, logs: &str) {
        let lines: Vec<&str> = logs.lines().collect();
        let tail = &lines[lines.len().saturating_sub(30)..];
        self.fail(format!("the last log lines of the workers are\n{}", tail.join("\n")));
    }

    pub(crate) fn print(&self) {
        println!("{self}");
        println!(
            "    failures: {:?}; {} of {} keys undecided",
            self.figures.kinds,
            self.unclear,
            self.keys()
        );
        println!("    {}; at most {} units were freed", self.figures.corrections, self.freed);
        println!("    {:?} checks of {:?} were paid from leases", self.leased, Family::LEASED);
        println!(
            "    {} checks of leased policies together with others were paid from leases, {} of them denied by the others",
            self.mixed, self.undone
        );
        println!(
            "    {:?} checks of leased policies, alone and mixed, were decided by processes, {} denials were remembered",
            self.local, self.remembered
        );
        println!(
            "    {} permits were taken, {} renewed; {} checks were denied by blocks",
            self.permits, self.renewed, self.blocked
        );
        println!("    {} checks were made under grants; {} resets", self.granted, self.resets);
        println!(
            "    after two deadlines {} calls failed, {} of them not at once",
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
            if self.excess == 0 { "no".to_owned() } else { format!("{} % of a burst", self.excess) }
        )
    }
}

/// The number of violations that are shown.
const MAX_SHOWN: usize = 5;
/// The share of undecided keys at which a fault fails, in percent.
const MAX_UNCLEAR: usize = 5;
