//! Checks that one module of the Redis store names its client, so that another client would be a change of this module only.

use std::path::{Path, PathBuf};

use super::broken_lines;

/// Returns one entry for each line of code that names the client elsewhere. `sources` are files, relative to the workspace, with
/// their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let is_elsewhere = |inner: &Path| !inner.starts_with(CLIENT) && inner != Path::new("fred.rs");
    let is_checked = |file: &Path| file.strip_prefix(FOLDER).is_ok_and(is_elsewhere);
    broken_lines(sources, is_checked, names_client, "only the module fred names fred")
}

/// Whether a line is code that names the client, and not the module of the same name.
fn names_client(line: &str) -> bool {
    line.match_indices(CLIENT).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.strip_prefix(CLIENT).unwrap_or(rest);
        let is_whole = !before.ends_with(is_of_a_name) && !after.starts_with(is_of_a_name);
        is_whole && !["crate::", "super::", "mod "].iter().any(|path| before.ends_with(path))
    })
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

const FOLDER: &str = "crates/portcullis-redis/src";
/// The name of the client, and of the module.
const CLIENT: &str = "fred";

#[cfg(test)]
mod tests {
    use super::*;

    fn violations_in(file: &str, text: &str) -> Vec<String> {
        violations(&[(PathBuf::from(file), text.to_owned())])
    }

    #[test]
    fn the_client_is_found_outside_of_its_module() {
        let text = "use ::fred::clients::Client;\n\nfn f() {\n    let _ = fred::util::static_str;\n}\n";
        for file in ["store.rs", "connection/tests/outage.rs", "connection/fred.rs"] {
            let file = format!("crates/portcullis-redis/src/{file}");
            let expected = [1, 4].map(|line| format!("{file}:{line}: only the module fred names fred"));
            assert_eq!(violations_in(&file, text), expected);
        }
        for file in ["src/fred.rs", "src/fred/link/tests.rs", "tests/main.rs"] {
            assert_eq!(violations_in(&format!("crates/portcullis-redis/{file}"), text), [""; 0]);
        }
    }

    #[test]
    fn comments_and_the_module_are_not_the_client() {
        let text = "//! `fred::clients`\nmod fred;\nuse crate::fred::{Client, Pool};\nuse super::fred::link;\n\
                    fn alfred() {}\nconst freddy: u8 = 1;\n    // See fred::types.\n";
        assert_eq!(violations_in("crates/portcullis-redis/src/lib.rs", text), [""; 0]);
    }
}
