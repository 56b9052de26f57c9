//! What the book names outside of itself: the tests of the threat model, and the scenes of the playground.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::read;

/// Returns one line for each test that does not exist, and for each link to a scene that does not exist.
pub(super) fn violations(
    root: &Path,
    pages: &[(PathBuf, String)],
    sources: &[(PathBuf, String)],
) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in [THREATS, ATTACKS] {
        broken.extend(missing_tests(page, &read(root, Path::new(page))?, sources));
    }
    let scenes = read(root, Path::new(SCENES))?;
    for (page, text) in pages.iter().filter(|(page, _)| page.starts_with("docs")) {
        broken.extend(missing_scenes(page, text, &scenes));
    }
    Ok(broken)
}

/// The names in code style in the tables, such as `a_name_of_a_test`, that no function has.
fn missing_tests(page: &str, text: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    let cells = text.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| !name.contains(' '));
    let is_missing = |name: &&str| {
        let function = format!("fn {name}(");
        !sources.iter().any(|(_, text)| text.contains(&function))
    };
    names.filter(is_missing).map(|name| format!("{page}: no test has the name {name}")).collect()
}

fn missing_scenes(page: &Path, text: &str, scenes: &str) -> Vec<String> {
    let links = text.split(PLAYGROUND).skip(1);
    let names = links.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or(rest));
    let is_missing = |name: &&str| *name != "toy" && !scenes.contains(&format!("\"id\": \"{name}\""));
    let broken = names.filter(is_missing);
    broken.map(|name| format!("{}: the playground has no scene `{name}`", page.display())).collect()
}

const THREATS: &str = "docs/understand/threats.md";
const ATTACKS: &str = "tests/attacks/README.md";
const SCENES: &str = "playground/page/scenes.json";
const PLAYGROUND: &str = "http://127.0.0.1:8090/#";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_test_is_reported() {
        let sources = [(PathBuf::from("a.rs"), "async fn known_test() {}".to_owned())];
        let text = "`prose`\n| attempt | what holds | test |\n|---|---|---|\n\
                    | `a` | `b` | `known_test`, `other_test` |\n| c | d | `cargo xtask faults` |\n";
        assert_eq!(missing_tests("p.md", text, &sources), ["p.md: no test has the name other_test"]);
    }

    #[test]
    fn unknown_scene_is_reported() {
        let text = "[`edge`](http://127.0.0.1:8090/#edge), http://127.0.0.1:8090/#toy, `http://127.0.0.1:8090/#ledge`";
        let found = missing_scenes(Path::new("docs/p.md"), text, r#"[{ "id": "edge" }]"#);
        assert_eq!(found, ["docs/p.md: the playground has no scene `ledge`"]);
    }
}
