//! The tables of the book.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Tables;

/// Puts a report between the markers of its tables.
pub(super) fn write(root: &Path, tables: Tables, report: &str) -> Result<()> {
    let name = tables.to_string();
    let path = root.join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let text = replaced(&text, &name, report).with_context(|| format!("cannot replace tables of {PAGE}"))?;
    fs::write(&path, text).with_context(|| format!("cannot write {PAGE}"))?;
    println!("rewrote the tables `{name}` of {PAGE}");
    Ok(())
}

fn replaced(page: &str, name: &str, report: &str) -> Result<String> {
    let begin = format!("<!-- measured: {name} -->\n");
    let missing = || format!("there is no `{}` with an `{END}` after it", begin.trim_end());
    let (before, rest) = page.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{begin}{}{END}{after}", as_section(report)))
}

/// The report with headings one level below those of the page, and without repeated blank lines.
fn as_section(report: &str) -> String {
    let mut section = String::new();
    for line in report.trim().lines().map(str::trim_end) {
        if line.is_empty() && section.ends_with("\n\n") {
            continue;
        }
        if line.starts_with("## ") {
            section.push('#');
        }
        section.push_str(line);
        section.push('\n');
    }
    section
}

const PAGE: &str = "docs/reference/measurements.md";
const END: &str = "<!-- end -->";

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn a_report_replaces_what_is_between_its_markers() {
        let page = "a\n<!-- measured: b -->\nold\n<!-- end -->\n<!-- measured: c -->\nother\n<!-- end -->\n";
        let report = "`command`\n\n\n\n## Times\n\n| | ns |\n";
        let expected = "a\n<!-- measured: b -->\n`command`\n\n### Times\n\n| | ns |\n<!-- end -->\n\
                        <!-- measured: c -->\nother\n<!-- end -->\n";
        assert_eq!(replaced(page, "b", report).unwrap(), expected);
        let error = replaced(page, "d", report).unwrap_err().to_string();
        assert_eq!(error, "there is no `<!-- measured: d -->` with an `<!-- end -->` after it");
    }

    #[test]
    fn page_has_a_place_for_all_tables() {
        let page = fs::read_to_string(Workspace::load().unwrap().root.join(PAGE)).unwrap();
        for tables in Tables::value_variants().iter().filter(|tables| **tables != Tables::All) {
            replaced(&page, &tables.to_string(), "").unwrap();
        }
    }
}
