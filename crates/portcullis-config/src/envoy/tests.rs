//! Tests of all parts together.

mod folders;
mod hostile;
mod kinds;
mod metrics;
mod mistakes;
mod policies;
mod published;
mod readme;
mod silent;
mod yaml;

use std::path::PathBuf;

use super::{Descriptors, Unit};

/// The entries of a descriptor.
type Entries<'a> = &'a [(&'a str, &'a str)];

/// The path of a test file.
fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/envoy")).join(name)
}

/// The limits of a test file.
fn file(name: &str) -> Descriptors {
    Descriptors::from_files(&[path(name)]).expect("the file is valid")
}

/// The limits of a text.
fn text(text: &str) -> Descriptors {
    Descriptors::parse(&[("test.yaml", text)]).expect("the text is valid")
}

/// What is wrong with a text, one finding in each line.
fn mistakes(text: &str) -> String {
    Descriptors::parse(&[("test.yaml", text)]).expect_err("the text is not valid").to_string()
}

/// What a text warns about, one finding in each line.
fn warnings(input: &str) -> String {
    text(input).warnings().to_string()
}

/// The figures of the limit of a descriptor.
fn limit(descriptors: &Descriptors, domain: &str, descriptor: &[(&str, &str)]) -> Option<(u32, Unit)> {
    let found = descriptors.limit(domain, descriptor)?;
    Some((found.limit().requests_per_unit(), found.limit().unit()?))
}

/// The key of a descriptor for metrics.
fn full_key(descriptors: &Descriptors, domain: &str, descriptor: &[(&str, &str)]) -> String {
    descriptors.limit(domain, descriptor).expect("there is a limit").full_key()
}
