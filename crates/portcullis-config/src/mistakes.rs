//! What typical mistakes are answered with. `tests/mistakes` has a file for each, and the findings beside it.
//!
//! With `UPDATE_MISTAKES` in the environment the test writes the findings instead of comparing them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Format, Loader, Rules};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| Format::of_path(path).is_some()).collect();
    files.sort();
    files
}

#[test]
fn typical_mistakes_have_their_findings() {
    let files = files();
    assert!(files.len() >= 20, "{} files", files.len());
    let mut differences = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let format = Format::of_path(&path).unwrap();
        let loaded = Rules::load(&Loader::text(name, format, text).environment(|_| None));
        let findings =
            loaded.map_or_else(|findings| findings.to_string(), |rules| rules.warnings().to_string());
        let expected = path.with_file_name(format!("{name}.txt"));
        let found = findings + "\n";
        if std::env::var_os("UPDATE_MISTAKES").is_some() {
            fs::write(expected, found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            differences.push(found);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
