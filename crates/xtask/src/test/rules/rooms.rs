//! Checks that a reader knows a crate from the root of its sources: it has few rooms, each a file with its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::is_test;

/// Returns one line for each crate with more rooms than [`MOST`]. `sources` are files, relative to the workspace, with their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, _) in sources {
        let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
        if let ["crates", name, "src", room, ..] = parts[..]
            && !LARGE.contains(&name)
            && !is_test(file)
        {
            rooms.entry(name).or_default().insert(room.trim_end_matches(".rs"));
        }
    }
    let crowded = rooms.into_iter().filter(|(_, rooms)| rooms.len() > MOST);
    crowded.map(|(name, rooms)| format!("{name}: {} rooms, at most {MOST}", rooms.len())).collect()
}

const MOST: usize = 12;
/// Crates of one subject with many parts.
const LARGE: [&str; 2] = ["portcullis-config", "portcullis-core"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowded_root_is_reported() {
        let file = |path: String| (PathBuf::from(path), String::new());
        let of = |name: &str, rooms: usize| -> Vec<_> {
            let room =
                |room| [format!("crates/{name}/src/r{room}.rs"), format!("crates/{name}/src/r{room}/a.rs")];
            (0..rooms).flat_map(room).map(file).collect()
        };
        assert_eq!(violations(&of("portcullis-tower", 12)), [""; 0]);
        assert_eq!(violations(&of("portcullis-tower", 13)), ["portcullis-tower: 13 rooms, at most 12"]);
        assert_eq!(violations(&of("portcullis-core", 13)), [""; 0]);
    }
}
