//! What the front pages say is what the measured tables and the manifest say.

use std::collections::BTreeSet;

const README: &str = include_str!("../../README.md");
const MEASUREMENTS: &str = include_str!("../../docs/reference/measurements.md");
const FACADE: &str = include_str!("../../crates/portcullis/README.md");
const FACADE_DOCS: &str = include_str!("../../crates/portcullis/src/lib.rs");
const FACADE_MANIFEST: &str = include_str!("../../crates/portcullis/Cargo.toml");

/// The cells of the rows of the first table below a line.
fn rows<'a>(text: &'a str, line: &str) -> Vec<Vec<&'a str>> {
    let table = text.split_once(&format!("\n{line}\n")).unwrap().1;
    let rows =
        table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn readme_is_at_most_7000_bytes() {
    assert!(README.len() <= 7_000, "{} bytes", README.len());
}

#[test]
fn readme_has_figures_of_measured_tables() {
    let claims = rows(README, "## Measured");
    assert_eq!(claims.len(), 3);
    for claim in claims {
        let [what, ours, theirs, command] = claim[..] else { panic!("{claim:?}") };
        let (_, rest) = MEASUREMENTS.split_once(&format!("\n{command}\n")).unwrap();
        let measured = rest.split("<!-- end -->").next().unwrap();
        for figure in [ours, theirs.split(',').next().unwrap()] {
            assert!(
                measured.contains(&format!("| {figure} |")),
                "{what}: {command} has not printed {figure}"
            );
        }
    }
}

#[test]
fn readme_compares_eight_properties() {
    let compared = rows(README, "## Beside others");
    assert_eq!(compared.len(), 8);
    assert!(compared.iter().all(|row| row.len() == 8), "{compared:?}");
    assert_eq!(rows(README, "## I want").len(), 10);
}

#[test]
fn facade_pages_list_every_feature() {
    let manifest: toml::Table = FACADE_MANIFEST.parse().unwrap();
    let features = manifest["features"].as_table().unwrap().keys().map(String::as_str);
    let features: BTreeSet<_> = features.filter(|name| *name != "default").collect();
    let docs = FACADE_DOCS.replace("//! ", "");
    for rows in [rows(FACADE, "all instances behind a load balancer."), rows(&docs, "# Features")] {
        let named: BTreeSet<_> = rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
        assert_eq!(named, features);
    }
}
