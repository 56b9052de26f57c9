//! Comparisons as Markdown.

use std::fmt;

use crate::Spread;

/// A table with a row for each measured pair: our figure, that of the other case, their ratio and its target.
///
/// ```
/// use portcullis_bench::{Comparison, Target};
///
/// let mut table = Comparison::new("In memory");
/// table.push("one hot key", "another limiter", "ns", &[30.0, 31.0, 32.0], &[60.0, 62.0, 64.0], Target::AtMost(1.0));
/// let row = "| one hot key | another limiter | 31.0 ns | 62.0 ns | 0.50 | 0.50 to 0.50 | <= 1.00 | yes |";
/// assert_eq!(table.to_string().lines().last(), Some(row));
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Comparison {
    /// An empty table with a heading.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }

    /// Adds a row with the figures of `work` here and in the case `beside`, by round.
    pub fn push(
        &mut self,
        work: &str,
        beside: &str,
        unit: &str,
        ours: &[f64],
        theirs: &[f64],
        target: Target,
    ) {
        let ratio = Spread::of_ratio(ours, theirs);
        let median = |figures: &[f64]| format!("{} {unit}", digits(Spread::of(figures.to_vec()).median));
        self.rows.push(vec![
            work.to_owned(),
            beside.to_owned(),
            median(ours),
            median(theirs),
            digits(ratio.median),
            format!("{} to {}", digits(ratio.low), digits(ratio.high)),
            target.to_string(),
            target.verdict(ratio.median).to_owned(),
        ]);
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["", "beside", "ours", "theirs", "ratio", "of 8 in 10 rounds", "target", "reached"];
        write!(f, "## {}\n\n{}", self.title, markdown(&header, &self.rows))
    }
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The row is for information.
    None,
    /// At most this number, for times and sizes.
    AtMost(f64),
    /// At least this number, for rates.
    AtLeast(f64),
}

impl Target {
    /// `yes` or `no`, or nothing without a target.
    ///
    /// ```
    /// use portcullis_bench::Target;
    ///
    /// assert_eq!(Target::AtMost(1.0).verdict(0.9), "yes");
    /// assert_eq!(Target::AtLeast(1.0).verdict(0.9), "no");
    /// assert_eq!(Target::None.verdict(0.9), "");
    /// ```
    pub fn verdict(self, figure: f64) -> &'static str {
        let reached = match self {
            Self::None => return "",
            Self::AtMost(most) => figure <= most,
            Self::AtLeast(least) => figure >= least,
        };
        if reached { "yes" } else { "no" }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::AtMost(most) => write!(f, "<= {}", digits(*most)),
            Self::AtLeast(least) => write!(f, ">= {}", digits(*least)),
        }
    }
}

/// A table: the first column is text, the others are numbers.
///
/// ```
/// let table = portcullis_bench::markdown(&["", "bytes"], &[vec!["one key".to_owned(), "60".to_owned()]]);
/// assert_eq!(table, "|  | bytes |\n|---|---:|\n| one key | 60 |\n");
/// ```
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &str| format!("| {cells} |");
    let separator = format!("|---|{}", "---:|".repeat(header.len().saturating_sub(1)));
    let mut lines = vec![line(&header.join(" | ")), separator];
    lines.extend(rows.iter().map(|row| line(&row.join(" | "))));
    lines.push(String::new());
    lines.join("\n")
}

/// A number with two or three significant digits; zero only if it is exactly zero.
///
/// ```
/// use portcullis_bench::digits;
///
/// assert_eq!([0.0, 0.041, 1.234, 123.4].map(digits), ["0", "0.041", "1.23", "123"]);
/// ```
pub fn digits(value: f64) -> String {
    let places = match value {
        _ if value <= 0.0 => 0,
        0.0..0.000_95 => 5,
        0.0..0.0095 => 4,
        0.0..0.095 => 3,
        0.0..9.95 => 2,
        0.0..99.5 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}
