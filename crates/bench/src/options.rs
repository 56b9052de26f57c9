//! What the programs have in common.

use clap::Parser;

/// Measures one subject, and prints the tables as Markdown.
#[derive(Clone, Copy, Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
pub struct BenchOptions {
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    pub quick: bool,
}

impl BenchOptions {
    /// The text above the tables: the command that repeats the measurement, and its conditions.
    ///
    /// ```
    /// use portcullis_bench::BenchOptions;
    ///
    /// let heading = BenchOptions { quick: false }.heading("flood", "On a fast machine.");
    /// assert_eq!(heading, "`cargo xtask bench flood`\n\nOn a fast machine.\n");
    /// ```
    pub fn heading(&self, subject: &str, conditions: &str) -> String {
        let (quick, warning) =
            if self.quick { (" --quick", "\n\nA smoke run: these figures mean nothing.") } else { ("", "") };
        format!("`cargo xtask bench {subject}{quick}`\n\n{conditions}{warning}\n")
    }
}
