//! `portcullis diff`: what a change of rules would have done to the requests of a log.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::callers::Callers;
use super::engine::{Engine, Outcome};
use super::input::{self, Input};
use super::report::{Table, percent};
use crate::load::LoadArguments;

/// Shows which requests of an access log new rules would reject that the old ones let pass, and the other way round.
///
/// Both sets of rules decide about each line, as in `simulate`. Exits with 0 if no request would newly be rejected, with 1 if one would be
/// or rules have errors, and with 2 if the log cannot be read.
#[derive(Debug, Args)]
pub struct Diff {
    /// The rules of today.
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The rules that are to replace them.
    #[arg(value_name = "NEW")]
    new: PathBuf,

    #[command(flatten)]
    load: LoadArguments,

    #[command(flatten)]
    input: Input,

    /// Prints JSON in place of the tables.
    #[arg(long)]
    json: bool,
}

/// The requests that two rule sets decide differently about. There are none at first.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// The requests.
    pub requests: u64,
    /// The requests that both reject.
    pub both: u64,
    /// The requests that only the new rules reject, by the new rules.
    pub newly: Changed,
    /// The requests that only the old rules reject, by the old rules.
    pub no_longer: Changed,
}

/// Requests, by the rule that rejects them and by their caller.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The requests.
    pub requests: u64,
    /// The rules with the number of requests. A request that several rules reject counts for each.
    pub rules: Vec<(String, u64)>,
    /// The rules and callers with the most of them.
    pub callers: Callers,
    indexes: HashMap<String, usize>,
}

impl Diff {
    /// Reads the log, and prints the difference. Returns whether the rules could be used, and no request would newly be
    /// rejected.
    ///
    /// # Errors
    ///
    /// If the rules cannot be layers, or the log cannot be read.
    pub fn run(self) -> anyhow::Result<bool> {
        let (old, new) = (self.load.rules(&self.old)?, self.load.rules(&self.new)?);
        let Some((old, new)) = old.zip(new) else { return Ok(false) };
        let headers = input::headers_of([&old, &new]);
        let mut old = input::engine_of_rules(old, self.input.options(0))?;
        let mut new = input::engine_of_rules(new, self.input.options(0))?;
        let mut difference = Difference::default();
        let reading = self.input.read(headers, |line| {
            let outcomes = (old.handle(line), new.handle(line));
            difference.add(outcomes, (&old, &new));
        })?;
        reading.print();
        let text = if self.json {
            format!("{:#}\n", difference.json(self.input.top))
        } else {
            difference.table(self.input.top)
        };
        // The reader of a pipe may have closed it; the exit code still states the result.
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(difference.newly.requests == 0)
    }
}

impl Difference {
    /// Adds the last request of two engines. One that waits passes.
    pub fn add<A, B>(&mut self, outcomes: (Outcome, Outcome), engines: (&Engine<A>, &Engine<B>)) {
        if outcomes.0 == Outcome::Unusable {
            return;
        }
        self.requests += 1;
        match (outcomes.0 == Outcome::Rejected, outcomes.1 == Outcome::Rejected) {
            (false, false) => {}
            (true, true) => self.both += 1,
            (false, true) => self.newly.add(engines.1.rejected_by(), &engines.1.caller()),
            (true, false) => self.no_longer.add(engines.0.rejected_by(), &engines.0.caller()),
        }
    }

    fn table(&self, top: usize) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} requests, {} rejected by both", self.requests, self.both);
        for (title, changed) in [("newly rejected", &self.newly), ("no longer rejected", &self.no_longer)] {
            let share = percent(changed.requests, self.requests);
            let _ = writeln!(out, "\n{} requests {title} ({share})", changed.requests);
            let mut rules = Table::new(&["rule", "requests"]);
            for (rule, requests) in &changed.rules {
                rules.row([rule.clone(), requests.to_string()]);
            }
            let mut callers = Table::new(&["caller", "rule", "requests"]);
            for (rule, caller, requests) in changed.callers.top(top) {
                callers.row([caller.to_owned(), changed.rules[rule].0.clone(), requests.to_string()]);
            }
            for table in [rules, callers].iter().filter(|table| !table.is_empty()) {
                table.write(&mut out);
            }
        }
        out
    }

    fn json(&self, top: usize) -> Value {
        json!({
            "requests": self.requests,
            "rejected_by_both": self.both,
            "newly_rejected": self.newly.json(top),
            "no_longer_rejected": self.no_longer.json(top),
        })
    }
}

impl Default for Changed {
    fn default() -> Self {
        Self { requests: 0, rules: Vec::new(), callers: Callers::new(KEPT_CALLERS), indexes: HashMap::new() }
    }
}

impl Changed {
    fn add(&mut self, rules: Vec<String>, caller: &str) {
        self.requests += 1;
        for rule in rules {
            let index = *self.indexes.entry(rule).or_insert_with_key(|rule| {
                self.rules.push((rule.clone(), 0));
                self.rules.len() - 1
            });
            self.rules[index].1 += 1;
            self.callers.add(index, caller);
        }
    }

    fn json(&self, top: usize) -> Value {
        let rules = self.rules.iter().map(|(rule, requests)| json!({ "rule": rule, "requests": requests }));
        let callers = self.callers.top(top).into_iter().map(
            |(rule, caller, requests)| json!({ "rule": self.rules[rule].0, "caller": caller, "requests": requests }),
        );
        json!({
            "requests": self.requests,
            "rules": rules.collect::<Vec<_>>(),
            "callers": callers.collect::<Vec<_>>(),
            "callers_error": self.callers.error(),
        })
    }
}

const KEPT_CALLERS: usize = 100_000;
