//! Events of directories.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use portcullis_log::codes;
use tokio::sync::Notify;

/// Watches directories, as far as the system can.
pub(super) struct Events {
    changed: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Whether a failure was logged, since all directories were last watched.
    is_logged: bool,
}

impl Events {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { changed, watcher: None, watched: BTreeSet::new(), is_logged: false }
    }

    /// Watches these directories and no others. Those that are watched already are watched anew: one may have been replaced.
    pub(super) fn watch(&mut self, directories: BTreeSet<PathBuf>) {
        let failure = self.try_watch(directories);
        match failure {
            Some(ref error) if !self.is_logged => {
                tracing::warn!(code = %codes::NO_FILE_EVENTS, %error, "changes of rules are found by reading the files at intervals: the system reports no events");
            }
            _ => {}
        }
        self.is_logged = failure.is_some();
    }

    /// The first failure. A directory that does not exist is none: its file is missed already.
    fn try_watch(&mut self, directories: BTreeSet<PathBuf>) -> Option<notify::Error> {
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => {
                let changed = Arc::clone(&self.changed);
                let handler = move |event: notify::Result<Event>| {
                    // After an error, events may be missing.
                    if event.is_ok_and(|event| !concerns_content(event.kind)) {
                        return;
                    }
                    changed.notify_one();
                };
                match RecommendedWatcher::new(handler, Config::default()) {
                    Ok(watcher) => none.insert(watcher),
                    Err(error) => return Some(error),
                }
            }
        };
        for former in self.watched.difference(&directories) {
            // It may be gone.
            let _ = watcher.unwatch(former);
        }
        let mut failure = None;
        let mut current = BTreeSet::new();
        for directory in directories {
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(current.insert(directory)),
                Err(_) if !directory.exists() => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        self.watched = current;
        failure
    }
}

/// Whether files may have other contents after an event. Reading them is an event as well.
fn concerns_content(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
