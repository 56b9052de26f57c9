//! What `docs/command.md` shows.

use std::fs;
use std::path::Path;

use crate::rules::portcullis;

#[test]
fn page_has_all_commands() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(file).unwrap();
    let (_, help, _) = portcullis(&["--help"]);
    let commands = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    // What a command does may take several lines, which begin further right.
    let names =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ").map(|(name, _)| name));
    let names: Vec<_> = names.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(names.len() > 5, "{help}");
    for name in names {
        let row = [format!("`{name}`"), format!("`{name} ")];
        assert!(row.iter().any(|start| page.contains(start)), "{name}");
    }
}
