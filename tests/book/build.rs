//! Makes a module of each page of the book that has Rust code, whose examples are then tests.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs").canonicalize()?;
    let summary = docs.join("SUMMARY.md");
    println!("cargo::rerun-if-changed={}", summary.display());
    let mut modules = String::new();
    for name in fs::read_to_string(&summary)?.lines().filter_map(page) {
        let path = docs.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if text.contains("```rust") {
            let module = name.trim_end_matches(".md").replace(['/', '-'], "_");
            let path = path.display().to_string();
            writeln!(modules, "#[doc = include_str!({path:?})]\npub mod {module} {{}}")?;
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("pages.rs"), modules)?;
    Ok(())
}

/// The file that a line of the table of contents names.
fn page(line: &str) -> Option<&str> {
    Some(line.split_once("](")?.1.split_once(')')?.0)
}
