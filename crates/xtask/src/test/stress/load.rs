//! What makes time pass for tests: busy processors, and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cmd::Cmd;

/// Threads that compute until this is dropped.
#[derive(Debug)]
pub(super) struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    pub(super) fn start(number: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..number {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Stops a process at random moments, without its children.
#[derive(Debug)]
pub(super) struct Stops {
    end: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Stops {
    pub(super) fn start(process: u32, seed: u64) -> Self {
        let (end, has_ended) = channel::<()>();
        let thread = thread::spawn(move || {
            let (mut random, mut stops) = (fastrand::Rng::with_seed(seed), 0);
            // The first stop comes soon, so that a short program meets one.
            let mut pause = random.u64(0..FIRST_PAUSE);
            while has_ended.recv_timeout(Duration::from_millis(pause)) == Err(RecvTimeoutError::Timeout) {
                stop(process);
                stops += 1;
                pause = random.u64(0..MAX_PAUSE);
            }
            stops
        });
        Self { end, thread }
    }

    /// Ends the stops, and returns how many there were.
    pub(super) fn end(self) -> u32 {
        drop(self.end);
        // A panic of the thread stops nothing any more.
        self.thread.join().unwrap_or(0)
    }
}

/// A shell does it, which continues the process even if this program is interrupted meanwhile.
fn stop(process: u32) {
    let script = r#"trap '' INT TERM HUP; kill -STOP "$1" && sleep 0.2; kill -CONT "$1""#;
    // The process may have ended.
    let _ = Cmd::new("sh").args("-c").word(script).word("sh").word(&process.to_string()).output(".".as_ref());
}

/// Milliseconds before the first stop, at most.
const FIRST_PAUSE: u64 = 100;
/// Milliseconds between two stops, at most.
const MAX_PAUSE: u64 = 3_000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn stopped_process_continues() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        stop(child.id());
        let state = fs::read_to_string(format!("/proc/{}/stat", child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        // Where there is no such file, a signal has ended the process all the same.
        assert!(!state.unwrap_or_default().contains(" T "));
    }
}
