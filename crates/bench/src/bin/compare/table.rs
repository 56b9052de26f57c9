//! Tables as Markdown.

use std::fmt;

pub(crate) use portcullis_bench::digits;
use portcullis_bench::markdown;

/// A table with its place on the page.
#[derive(Debug)]
pub(crate) struct Table {
    /// The marker in the page.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(name: &'static str, title: impl Into<String>, header: &[&'static str]) -> Self {
        Self { name, title: title.into(), header: header.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&markdown(&self.header, &self.rows))
    }
}

/// A share in percent.
pub(crate) fn percent(part: u64, all: u64) -> String {
    digits(100.0 * part as f64 / all as f64)
}

/// A whole number with separated thousands.
pub(crate) fn thousands(value: f64) -> String {
    let whole = format!("{value:.0}");
    let mut apart = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            apart.push(' ');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_significant_digits() {
        let shown = [0.0, 0.000_31, 0.003, 0.041, 1.234, 12.34, 123.4].map(digits);
        assert_eq!(shown, ["0", "0.00031", "0.0030", "0.041", "1.23", "12.3", "123"]);
        assert_eq!([7.0, 999.6, 1_234_567.0].map(thousands), ["7", "1 000", "1 234 567"]);
    }
}
