//! Writes the tables and the chart to the page.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::table::Table;

/// Writes every table between its markers, and the chart.
pub(crate) fn write(tables: &[Table], chart: &str) -> Result<()> {
    let path = docs().join(PAGE);
    let mut page = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for table in tables {
        page = replaced(&page, table)?;
    }
    fs::write(&path, page)?;
    fs::write(docs().join(CHART), chart)?;
    println!("rewrote the tables of docs/{PAGE} and the chart docs/{CHART}");
    Ok(())
}

fn replaced(page: &str, table: &Table) -> Result<String> {
    let (before, rest) = page.split_once(&begin(table.name)).with_context(|| missing(table.name))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(table.name))?;
    Ok(format!("{before}{}\n\n{}:\n\n{table}\n{END}{after}", begin(table.name), table.title))
}

fn begin(name: &str) -> String {
    format!("<!-- measured: {name} -->")
}

fn missing(name: &str) -> String {
    format!("docs/{PAGE} has no `{}` with an `{END}` after it", begin(name))
}

fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

const END: &str = "<!-- end -->";
const PAGE: &str = "reference/measurements.md";
const CHART: &str = "images/trade-offs.svg";

/// The figures that depend only on the code are in the page as the code computes them.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::{LIMIT, PERIOD, named};
    use crate::errors::{TRAFFIC, cell};
    use crate::{edge, memory_bytes, other_bytes};

    fn page() -> String {
        fs::read_to_string(docs().join(PAGE)).unwrap()
    }

    /// The cells of a row.
    fn row<'a>(page: &'a str, table: &str, name: &str) -> Vec<&'a str> {
        let (_, rest) = page.split_once(&begin(table)).unwrap();
        let (table, _) = rest.split_once(END).unwrap();
        let row = table.lines().find(|line| line.starts_with(&format!("| {name} |")));
        row.expect(OUTDATED).split('|').map(str::trim).skip(2).collect()
    }

    #[test]
    fn the_bursts_are_as_measured() {
        let table = edge::table(&edge::measure());
        assert_eq!(replaced(&page(), &table).unwrap(), page(), "{OUTDATED}");
    }

    #[test]
    fn the_errors_are_as_measured() {
        for name in ["fixed window", "sliding window"] {
            let strategy = named(name).strategy(LIMIT, PERIOD);
            let shares = TRAFFIC[4].1.run(&strategy, LIMIT, PERIOD);
            assert_eq!(row(&page(), "errors", name)[4], cell(&shares), "{name}: {OUTDATED}");
        }
    }

    #[test]
    fn the_bytes_in_memory_are_as_measured() {
        for name in ["token bucket", "sliding window", "sliding log"] {
            let bytes = memory_bytes::per_key(memory_bytes::SITUATIONS[0], &named(name));
            let page = page();
            let shown = row(&page, "bytes", name)[0].split(" / ").next();
            assert_eq!(shown, Some(crate::table::thousands(bytes).as_str()), "{name}: {OUTDATED}");
        }
    }

    #[test]
    fn the_other_bytes_in_memory_are_as_measured() {
        let runtime = other_bytes::runtime().unwrap();
        for (name, kept) in other_bytes::ROWS {
            let bytes = crate::table::thousands(other_bytes::in_memory(kept, &runtime));
            assert_eq!(row(&page(), "other-bytes", name)[0], bytes, "{name}: {OUTDATED}");
        }
    }

    const OUTDATED: &str = "docs/reference/measurements.md differs from the measurement: `cargo xtask compare --write` rewrites it";
}
