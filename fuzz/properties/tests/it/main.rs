//! The properties of the fuzzers, on the inputs of their corpora.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod repeated;

use std::fs;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;

use portcullis_fuzz::{TARGETS, Target};
use tar::Archive;

#[test]
fn all_properties_hold_for_the_corpora() {
    thread::scope(|scope| {
        for target in TARGETS {
            scope.spawn(|| check_corpus(target));
        }
    });
}

fn check_corpus(target: &Target) {
    let inputs = inputs(target.name);
    assert!(!inputs.is_empty(), "{} has no corpus", target.name);
    for (name, input) in inputs {
        check(target, &input, &name);
        // Truncated inputs are checked as well.
        for end in (0..input.len()).step_by(input.len() / 8 + 1) {
            check(target, &input[..end], &name);
        }
    }
}

#[test]
fn a_target_is_complete() {
    let manifest: toml::Table = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap().parse().unwrap();
    let mut registered: Vec<_> =
        manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap()).collect();
    registered.sort_unstable();
    let mut known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    known.sort_unstable();
    assert_eq!(registered, known, "the targets of fuzz/Cargo.toml and those of TARGETS");
    for folder in ["fuzz_targets", "corpus", "dictionaries"] {
        let names: Vec<_> = entries(&fuzz().join(folder))
            .iter()
            .map(|entry| entry.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, known, "the targets and what is in fuzz/{folder}");
    }
    for name in known {
        let source = fs::read_to_string(fuzz().join("fuzz_targets").join(name).with_extension("rs")).unwrap();
        assert!(source.contains(&format!("portcullis_fuzz::{name}(")), "{name} calls another function");
    }
}

fn check(target: &Target, input: &[u8], name: &Path) {
    let held = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    assert!(
        held.is_ok(),
        "{} does not hold for \"{}\" from {}",
        target.name,
        input.escape_ascii(),
        name.display()
    );
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names and the contents of the files in the corpus of a target.
fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let file = fuzz().join("corpus").join(target).with_extension("tar");
    let mut corpus = Archive::new(fs::File::open(file).unwrap());
    let mut inputs = Vec::new();
    for entry in corpus.entries().unwrap() {
        let mut entry = entry.unwrap();
        // An archive of a folder has the folder itself as well.
        if entry.header().entry_type().is_file() {
            let mut input = Vec::new();
            entry.read_to_end(&mut input).unwrap();
            inputs.push((entry.path().unwrap().into_owned(), input));
        }
    }
    inputs
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}
