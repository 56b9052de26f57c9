//! Real files, and real events.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portcullis_core::Secret;
use portcullis_memory::MemoryStore;
use portcullis_tower::{Event, EventKind, Registry};

use super::*;
use crate::rules::Rules;

/// A folder of its own, which is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("portcullis-watch-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes another file, and moves it over this one.
    fn replace(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn limit(limit: u64) -> String {
    format!("[policy.daily]\nstrategy = 'fixed_window'\nquota = '{limit}/day'\nkey = 'global'\n")
}

fn live(file: &Path) -> LiveRules {
    let registry = Registry::new(Arc::new(MemoryStore::new()), Secret::published());
    LiveRules::new(Arc::new(registry), Rules::from_file(file).unwrap()).unwrap()
}

/// Polls within a minute until the rules have this limit.
async fn until_limit(live: &LiveRules, limit: u64) {
    until(&format!("limit of {limit}"), || limit_of(live) == limit).await;
}

fn limit_of(live: &LiveRules) -> u64 {
    live.current().get("daily").map_or(0, |rule| rule.policy().strategy().limit())
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "no {what} after a minute");
        sleep(Duration::from_millis(2)).await;
    }
}

/// Events only: the interval is longer than the test.
const EVENTS: WatchOptions = WatchOptions {
    poll: Duration::from_secs(3_600),
    debounce: Duration::from_millis(20),
    events: true,
    hangup: false,
};
/// The interval only.
const POLLING: WatchOptions = WatchOptions { poll: Duration::from_millis(20), events: false, ..EVENTS };
/// As in service.
const BOTH: WatchOptions = WatchOptions { poll: Duration::from_millis(300), ..EVENTS };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_written_or_replaced_is_reloaded() {
    for options in [EVENTS, POLLING] {
        let folder = Folder::new();
        let file = folder.path("limits.toml");
        fs::write(&file, limit(1)).unwrap();
        let live = live(&file);
        let _watch = Watch::start(&live, options).unwrap();
        fs::write(&file, limit(2)).unwrap();
        until_limit(&live, 2).await;
        // Twice, because the file that was watched first is gone.
        for next in [3, 4] {
            folder.replace("limits.toml", &limit(next));
            until_limit(&live, next).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn included_files_and_new_ones_are_watched() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::create_dir(folder.path("limits.d")).unwrap();
    fs::write(
        &file,
        "include = ['limits.d/*.toml']\n[policy.other]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'global'\n",
    )
    .unwrap();
    let live = live(&file);
    let _watch = Watch::start(&live, EVENTS).unwrap();
    // Before the first look, or after it.
    fs::write(folder.path("limits.d/daily.toml"), limit(1)).unwrap();
    until_limit(&live, 1).await;
    fs::write(folder.path("limits.d/daily.toml"), limit(2)).unwrap();
    until_limit(&live, 2).await;
    fs::remove_file(folder.path("limits.d/daily.toml")).unwrap();
    until_limit(&live, 0).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_are_swapped_as_by_kubernetes_are_followed() {
    use std::os::unix::fs::symlink;
    for options in [EVENTS, POLLING] {
        let folder = Folder::new();
        let version = |number: u64| {
            let name = format!("..version_{number}");
            fs::create_dir(folder.path(&name)).unwrap();
            fs::write(folder.path(&name).join("limits.toml"), limit(number)).unwrap();
            symlink(&name, folder.path("..data_tmp")).unwrap();
            fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
        };
        version(1);
        symlink("..data/limits.toml", folder.path("limits.toml")).unwrap();
        let live = live(&folder.path("limits.toml"));
        let _watch = Watch::start(&live, options).unwrap();
        for next in 2..5 {
            version(next);
            fs::remove_dir_all(folder.path(&format!("..version_{}", next - 1))).unwrap();
            until_limit(&live, next).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_target_of_a_link_in_another_folder_is_watched() {
    let (folder, target) = (Folder::new(), Folder::new());
    fs::write(target.path("real.toml"), limit(1)).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(target.path("real.toml"), folder.path("limits.toml")).unwrap();
    #[cfg(not(unix))]
    return;
    let live = live(&folder.path("limits.toml"));
    let _watch = Watch::start(&live, EVENTS).unwrap();
    target.replace("real.toml", &limit(2));
    until_limit(&live, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_deleted_keeps_the_rules_until_it_is_back() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::write(&file, limit(1)).unwrap();
    let live = live(&file);
    let rejected = count_rejections(&live);
    let _watch = Watch::start(&live, BOTH).unwrap();
    fs::remove_file(&file).unwrap();
    until("refusal", || rejected.load(Ordering::SeqCst) == 1).await;
    assert_eq!((limit_of(&live), live.generation()), (1, 1));
    fs::write(&file, limit(2)).unwrap();
    until_limit(&live, 2).await;
    // The folder itself, which is then watched anew. A look between the creation of the file and its text may have refused that too.
    let before = rejected.load(Ordering::SeqCst);
    fs::remove_dir_all(&folder.0).unwrap();
    until("refusal", || rejected.load(Ordering::SeqCst) > before).await;
    fs::create_dir(&folder.0).unwrap();
    fs::write(&file, limit(3)).unwrap();
    until_limit(&live, 3).await;
    fs::write(&file, limit(4)).unwrap();
    until_limit(&live, 4).await;
}

fn count_rejections(live: &LiveRules) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    live.registry().observe(Arc::new(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::RulesRejected { .. }) {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }));
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refused_content_is_reported_once() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::write(&file, limit(1)).unwrap();
    let live = live(&file);
    let rejected = count_rejections(&live);
    let _watch = Watch::start(&live, POLLING).unwrap();
    for (count, broken) in [(1, "[policy"), (2, "[policy.x]\nquota = '?'")] {
        folder.replace("limits.toml", broken);
        until("refusal", || rejected.load(Ordering::SeqCst) == count).await;
    }
    // A file beside it is no reason to report it again.
    fs::write(folder.path("other.toml"), "x").unwrap();
    folder.replace("limits.toml", &limit(2));
    until_limit(&live, 2).await;
    assert_eq!((rejected.load(Ordering::SeqCst), live.generation()), (2, 2));
    // The rules that are current end a refusal, although nothing else changes.
    folder.replace("limits.toml", "[");
    until("refusal", || rejected.load(Ordering::SeqCst) == 3).await;
    folder.replace("limits.toml", &limit(2));
    until("reload", || live.generation() == 3).await;
    folder.replace("limits.toml", &limit(3));
    until_limit(&live, 3).await;
    assert_eq!((rejected.load(Ordering::SeqCst), live.generation()), (3, 4));
}

#[test]
fn a_file_cut_off_at_any_byte_keeps_the_last_good_rules() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    let whole = limit(100);
    fs::write(&file, &whole).unwrap();
    let live = live(&file);
    let mut looks = Looks::new(None);
    let (mut generation, mut limit) = (1, 100);
    for length in (0..whole.len()).rev() {
        fs::write(&file, &whole[..length]).unwrap();
        // What is valid by itself is a change, unless nothing is left.
        let valid = Rules::from_file(&file).ok().filter(|rules| rules.iter().len() > 0);
        looks.look(&live, false);
        if let Some(valid) = valid {
            let now = valid.get("daily").map_or(0, |rule| rule.policy().strategy().limit());
            (generation, limit) = (generation + 1, now);
        }
        assert_eq!((live.generation(), limit_of(&live)), (generation, limit), "{:?}", &whole[..length]);
        assert!(limit > 0, "{:?}", &whole[..length]);
        looks.look(&live, false);
        assert_eq!(live.generation(), generation, "the same content is looked at again");
    }
    fs::write(&file, &whole).unwrap();
    looks.look(&live, false);
    assert_eq!(limit_of(&live), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watch_ends_with_its_handle_and_with_the_rules() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::write(&file, limit(1)).unwrap();
    let first = live(&file);
    let weak = first.downgrade();
    let watch = Watch::start(&first, POLLING).unwrap();
    drop(first);
    until("end of the task", || watch.0.is_finished()).await;
    assert!(weak.upgrade().is_none());

    let second = live(&file);
    let watch = Watch::start(&second, POLLING).unwrap();
    let task = watch.0.abort_handle();
    drop(watch);
    until("end of the task", || task.is_finished()).await;
}

#[test]
fn a_watch_needs_a_runtime() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::write(&file, limit(1)).unwrap();
    assert!(matches!(Watch::start(&live(&file), EVENTS), Err(WatchError::NoRuntime)));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_reloads_what_has_not_changed() {
    let folder = Folder::new();
    let file = folder.path("limits.toml");
    fs::write(&file, limit(1)).unwrap();
    let live = live(&file);
    let _watch = Watch::start(&live, WatchOptions { hangup: true, ..EVENTS }).unwrap();
    let sent = std::process::Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status();
    assert!(sent.unwrap().success());
    until("second generation", || live.generation() == 2).await;
}
