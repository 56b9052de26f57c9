//! The page of fault test results has each fault that the tests inject.

use std::fs;

use crate::workspace::Workspace;

#[test]
fn page_has_each_fault() {
    let root = Workspace::load().unwrap().root;
    let page = fs::read_to_string(root.join("docs/reference/faults.md")).unwrap();
    let faults = fs::read_to_string(root.join("tests/faults/faults.rs")).unwrap();
    let (_, faults) = faults.split_once("const ALL: &[Fault]").unwrap();
    let titles: Vec<_> = faults.split("fault(").skip(1).filter_map(|call| call.split('"').nth(3)).collect();
    assert!(titles.len() > 20, "{titles:?}");
    for title in &titles {
        assert!(
            page.contains(&format!("| {title} | ")),
            "no row of {title}: paste the table of `cargo xtask faults`"
        );
    }
    let rows = page.lines().filter(|line| line.contains(" ms | "));
    let soaks = page.lines().filter(|line| line.starts_with("| at random: ")).count();
    assert_eq!((rows.count() - soaks, soaks), (titles.len(), 3));
}
