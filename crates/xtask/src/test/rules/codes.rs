//! Checks that each warning and error of the log has a code of the catalogue, from which `docs/reference/codes.md` is made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{code, is_test};

/// A code of the catalogue.
struct Described {
    level: String,
    /// The line, with `..` for what varies.
    line: String,
}

/// Returns one line for each call without a code, each one of another level, and each code that no line has. `sources` are files,
/// relative to the workspace, with their text.
pub(super) fn violations(sources: &[(PathBuf, String)]) -> Vec<String> {
    let (mut catalogue, mut files) = (BTreeMap::new(), Vec::new());
    for (file, text) in sources {
        if file.starts_with(CATALOGUE) {
            catalogue.extend(described(text));
        } else if is_of_product(file) {
            files.push((file, code(text)));
        }
    }
    let mut violations = Vec::new();
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in files {
        let normal = without_breaks(&text);
        for (level, named) in lines(&text) {
            let problem = match named {
                None => format!("a line of the level {level} has no code: `code = %codes::NAME` comes first"),
                Some(name) => match catalogue.get(name) {
                    Some(one) if one.level != level => {
                        format!("{name} is of the level {}, and not {level}", one.level)
                    }
                    _ => continue,
                },
            };
            violations.push(format!("{}: {problem}", file.display()));
        }
        let of_constants = text.split("codes::").skip(1).filter_map(|rest| names(rest).next());
        for name in of_constants.chain(lines(&text).into_iter().filter_map(|(_, named)| named)) {
            used.entry(name.to_owned()).or_default().push(normal.clone());
        }
    }
    for (name, Described { line, .. }) in catalogue {
        match used.get(&name) {
            None => violations.push(format!("{CATALOGUE}: no line has the code {name}")),
            Some(texts) => {
                let has_all = |text: &String| line.split("..").all(|part| text.contains(part.trim()));
                if !texts.iter().any(has_all) {
                    violations.push(format!("{CATALOGUE}: the line of {name} is another one in the source"));
                }
            }
        }
    }
    violations
}

fn is_of_product(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    let is_product = matches!(parts[..], ["crates", name, "src", ..] if name.starts_with("portcullis"));
    is_product && !is_test(file) && !file.to_string_lossy().ends_with("_tests.rs")
}

/// The codes of a file of the catalogue, by their names.
fn described(text: &str) -> Vec<(String, Described)> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let entries = lines.windows(2).filter_map(|pair| {
        let (name, rest) = pair[0].split_once(" = \"PC")?;
        let level = rest.split(' ').nth(1)?.to_uppercase();
        let line = pair[1].trim_end_matches(',').trim_matches('"').to_owned();
        Some((name.to_owned(), Described { level, line }))
    });
    entries.collect()
}

/// Each warning and error: its level, and what follows on `codes::` in it or, in a table, on the level. It is empty if another function
/// has chosen the code, and `None` without a code.
fn lines<'a>(text: &'a str) -> Vec<(&'static str, Option<&'a str>)> {
    let mut lines = Vec::new();
    for level in ["WARN", "ERROR"] {
        let call = format!("{}!(", level.to_lowercase());
        lines.extend(after(text, &call).map(|arguments| (level, named(arguments))));
        let of_table = |rest: &'a str| rest.strip_prefix(" = ").and_then(|rest| names(rest).next());
        lines.extend(after(text, level).map(|rest| (level, of_table(rest))));
    }
    lines
}

/// What follows on each occurrence of a whole word.
fn after<'a>(text: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    let places = text.match_indices(word).map(|(at, found)| (&text[..at], &text[at + found.len()..]));
    let is_call = word.ends_with('(');
    let whole = places.filter(move |(before, rest)| {
        !before.ends_with(is_of_a_name) && (is_call || !rest.starts_with(is_of_a_name))
    });
    whole.map(|(_, rest)| rest)
}

/// The code that is the first field of a call.
fn named(arguments: &str) -> Option<&str> {
    let arguments = arguments.trim_start();
    let fields = match arguments.strip_prefix("target:") {
        Some(rest) => rest.split_once(',')?.1.trim_start(),
        None => arguments,
    };
    if fields.starts_with("%code,") {
        return Some("");
    }
    let value = fields.strip_prefix("code = %")?;
    Some(value.strip_prefix("codes::").and_then(|rest| names(rest).next()).unwrap_or_default())
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_of_a_name(c)).filter(|word| !word.is_empty())
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text with each string in one line.
fn without_breaks(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.trim_start())
}

const CATALOGUE: &str = "crates/portcullis-log/src/codes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_after_a_module_of_tests_is_checked() {
        let found = violations_in("#[cfg(test)]\nmod tests;\n\nfn f() {\n    tracing::warn!(\"it\");\n}\n");
        assert_eq!(
            found.iter().filter(|line| line.contains("level WARN has no code")).count(),
            1,
            "{found:#?}"
        );
    }

    const ENTRIES: &str = "codes! {\n    /// It is full.\n    FULL = \"PC101\" Warn \"once\",\n        \"the store .. is full\",\n        \"Help.\";\n\n    \
        /// It is gone.\n    GONE = \"PC102\" Error \"once\",\n        \"\",\n        \"Help.\";\n}\n";

    fn violations_in(text: &str) -> Vec<String> {
        let catalogue = (Path::new(CATALOGUE).join("store.rs"), ENTRIES.to_owned());
        violations(&[catalogue, (PathBuf::from("crates/portcullis-x/src/a.rs"), text.to_owned())])
    }

    #[test]
    fn lines_with_codes_are_no_violations() {
        let text = "tracing::warn!(\n    target: T,\n    code = %codes::FULL,\n    \"the store {name} \\\n        is full\"\n);\n\
                    error!(%code, \"{error}\");\nlines!(ERROR = GONE Event::Gone => \"it\");\n// warn!(\"no code\")\n";
        assert_eq!(violations_in(text), [""; 0]);
    }

    #[test]
    fn lines_without_codes_are_found() {
        let text = "tracing::warn!(name, \"it\");\nwarn!(target: T, name, code = %codes::FULL, \"the store is full\");\n\
                    lines!(WARN Event::Full => \"it\");\ntracing::event!(Level::ERROR, \"it\");\nlet _ = codes::GONE;\n";
        let found = violations_in(text);
        let of = |level: &str| {
            found.iter().filter(|line| line.contains(&format!("level {level} has no code"))).count()
        };
        assert_eq!((of("WARN"), of("ERROR"), found.len()), (3, 1, 4), "{found:#?}");
    }

    #[test]
    fn spare_codes_and_other_levels_and_texts_are_found() {
        let found = violations_in("tracing::error!(code = %codes::FULL, \"the memory is full\");\n");
        let expected = [
            "crates/portcullis-x/src/a.rs: FULL is of the level WARN, and not ERROR".to_owned(),
            format!("{CATALOGUE}: the line of FULL is another one in the source"),
            format!("{CATALOGUE}: no line has the code GONE"),
        ];
        assert_eq!(found, expected);
    }
}
