//! The store decides like every other: the scenarios, random timelines, and what is particular to a file.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Key, Policy, Quota, Secret, StoreErrorKind, Timestamp};
use portcullis_testing::timeline::{Profile, agree, steps};
use portcullis_testing::{ManualClock, Pure, Scenario, StoreSubject, run, under_every_algorithm};
use sqlite_store::SqliteStore;
use tokio::runtime::Builder;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A file in the folder for temporary files, removed when the test ends.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("portcullis-{name}-{}.sqlite", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let mut file = self.0.clone().into_os_string();
            file.push(end);
            // There is none of the other two after a clean end.
            drop(std::fs::remove_file(file));
        }
    }
}

fn store(file: impl AsRef<Path>) -> (SqliteStore<ManualClock>, ManualClock) {
    let clock = ManualClock::new(NOW);
    (SqliteStore::open(file, clock.clone()).unwrap(), clock)
}

fn key(name: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", name.as_bytes());
    hasher.finish().unwrap()
}

fn checks() -> Checks {
    Checks::one(Policy::gcra("search", Quota::per_second(1)), key("ada"), 1)
}

#[tokio::test]
async fn the_store_passes_the_scenarios() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let mut passed = 0;
    for file in std::fs::read_dir(data).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|end| end == "toml") {
            let scenario = Scenario::read(&file).unwrap();
            let (store, clock) = store(":memory:");
            let report = run(scenario.cases(), &mut StoreSubject::new(Arc::new(store), clock)).await;
            assert!(report.is_success() && report.skipped().is_empty(), "{report}");
            passed += report.passed();
        }
    }
    assert!(passed > 100, "{passed}");
}

fn the_store_decides_like_the_algorithm(profile: Profile) {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (store, clock) = store(":memory:");
    let (mut pure, mut store) = (Pure::new(), StoreSubject::new(Arc::new(store), clock));
    let mix =
        agree(profile, steps(), &mut pure, &mut store, |comparison| runtime.block_on(comparison)).unwrap();
    mix.assert_corrections(steps());
}

under_every_algorithm!(the_store_decides_like_the_algorithm);

#[tokio::test]
async fn stores_on_one_file_share_their_limits() {
    let file = TempFile::new("shared");
    let (first, _) = store(&file.0);
    let (second, _) = store(&file.0);
    assert!(first.check(checks()).await.unwrap().is_allowed());
    assert!(!second.check(checks()).await.unwrap().is_allowed());
}

#[tokio::test]
async fn only_expired_states_are_swept() {
    let (store, clock) = store(":memory:");
    assert!(store.check(checks()).await.unwrap().is_allowed());
    clock.set(Timestamp::from_micros(NOW.as_micros() + 999_999));
    assert_eq!(store.sweep().await, Ok(0));
    clock.advance(Duration::from_micros(1));
    assert_eq!(store.sweep().await, Ok(1));
}

#[tokio::test]
async fn a_locked_file_is_overload_and_charges_nothing() {
    let file = TempFile::new("locked");
    let (store, _) = store(&file.0);
    let other = rusqlite::Connection::open(&file.0).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.check(checks()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Overloaded);
    other.execute_batch("COMMIT").unwrap();
    assert!(store.check(checks()).await.unwrap().is_allowed());
}
